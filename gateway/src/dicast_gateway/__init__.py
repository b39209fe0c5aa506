"""The JSON gateway of dicast: relabels two JSON dialects to gRPC and back, and holds no decision logic."""
