"""The gRPC service: limits, plans, deadlines, statuses. It never touches an array."""
