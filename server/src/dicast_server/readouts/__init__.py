"""Ways of reading a decision out of a language model's scores: pure, one file each."""
