"""Check output files before the work begins."""

from pathlib import Path


def check_destinations(*files: Path | None, picture: Path | None = None) -> None:
    """Raise `InputError` for the first file that cannot be written; None is skipped."""
    from capax.files import check_writable

    for path in filter(None, files):
        check_writable(path)
    if picture is not None:
        from capax.figures.style import check_destination

        check_destination(picture)
