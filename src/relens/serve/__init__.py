"""The service: the ensemble of a run behind a JSON interface and a web page."""
