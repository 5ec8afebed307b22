"""Ranking: scores of queries, the candidates that compete, and the rank of the answer among them."""
