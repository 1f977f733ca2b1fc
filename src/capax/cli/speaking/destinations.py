"""Where results will be written: a place that cannot be written is named before the work."""

from pathlib import Path


def check_destinations(*files: Path | None, picture: Path | None = None) -> None:
    """Raise `InputError` for the first that cannot be written; those not asked for are None."""
    from capax.files import check_writable

    for path in filter(None, files):
        check_writable(path)
    if picture is not None:
        from capax.figures.style import check_destination

        check_destination(picture)
