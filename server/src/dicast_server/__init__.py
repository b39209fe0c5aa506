"""The dicast server: plans typed questions, reads them out of a model on MLX, answers over gRPC."""
