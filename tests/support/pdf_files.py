"""PDF files for tests: laid out by a library, or written object by object for a fault or a tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fpdf import FPDF

SENTENCES = "The engine keeps what it acknowledged. Nothing that was promised is lost when a process dies. "


class Paper(FPDF):
    """A paper with running header and footer; 11 point text."""

    def header(self) -> None:
        self.set_font("Helvetica", "", 9)
        self.cell(0, 8, "The Engine's Manual", new_x="LMARGIN", new_y="NEXT")

    def footer(self) -> None:
        self.set_y(-15)
        self.set_font("Helvetica", "", 9)
        self.cell(0, 10, f"Page {self.page_no()} of {{nb}}")

    def heading(self, text: str, size: float, *, font: str = "Helvetica") -> None:
        self.set_font(font, "B", size)
        self.multi_cell(0, size * 0.5, text, new_x="LMARGIN", new_y="NEXT")
        self.ln(2)

    def paragraph(self, text: str = SENTENCES * 4, *, font: str = "Helvetica", size: float = 11) -> None:
        self.set_font(font, "", size)
        self.multi_cell(0, size * 0.5, text, new_x="LMARGIN", new_y="NEXT")
        self.ln(4)


def paper() -> Paper:
    """A paper with one empty page."""
    made = Paper()
    made.add_page()
    return made


def bytes_of(document: FPDF) -> bytes:
    return bytes(document.output())


def written(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A file of these objects, numbered from 1 on; the first is the catalog."""
    parts = [b"%PDF-1.7\n"]
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(sum(map(len, parts)))
        parts.append(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = sum(map(len, parts))
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    parts.extend(b"%010d 00000 n \n" % place for place in places)
    parts.append(b"trailer\n<< /Size %d /Root 1 0 R %s >>\n" % (len(objects) + 1, trailer))
    parts.append(b"startxref\n%d\n%%%%EOF\n" % start)
    return b"".join(parts)


def stream(content: bytes, **entries: str) -> bytes:
    named = " ".join(f"/{name} {value}" for name, value in entries.items())
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), named.encode(), content)


def one_page(content: bytes, *, structure: Mapping[str, bytes] | None = None, **entries: str) -> bytes:
    """A page with this content stream in 12 point Helvetica `/F1` (bold: `/F2`), and a structure tree.

    The page is object 3, and a tree's objects follow from 7 on.
    """
    catalog = b"<< /Type /Catalog /Pages 2 0 R %s >>" % (b"/StructTreeRoot 7 0 R" if structure else b"")
    return written(
        [
            catalog,
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
            b" /Resources << /Font << /F1 5 0 R /F2 6 0 R >> >> >>",
            stream(content, **entries),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>",
            *(structure or {}).values(),
        ]
    )
