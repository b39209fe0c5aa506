"""Which way of reading suits a model: a set of labelled questions, what each way makes of it, and files."""
