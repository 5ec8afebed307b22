"""The service: the ensemble of a run behind a JSON interface and a web page."""

from relens.serve.app import create_app as create_app
