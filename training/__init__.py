"""Labelled questions to train a decision adapter on, made from facts and phrases written for this project."""
