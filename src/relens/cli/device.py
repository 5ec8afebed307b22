"""Options that name devices."""

import click

device_option = click.option(
    "--device", default="auto", show_default=True, metavar="auto|cpu|cuda|cuda:N", help="Where models run."
)
devices_option = click.option(
    "--device", "--devices", "devices", default="auto", show_default=True, metavar="auto|cpu|cuda|cuda:N,…",
    help="Where models run. Each of several devices trains one model at a time: --devices cuda:0,cuda:1. The first "
    "one ranks.",
)  # fmt: skip
