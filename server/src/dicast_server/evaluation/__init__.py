"""Asks systems labelled questions: a served model over gRPC, or any URL of a JSON dialect."""
