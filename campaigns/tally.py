"""What an attack tried, and what survived."""

from dataclasses import dataclass, field


@dataclass
class Tally:
    """What an attack did.

    Attributes:
        tried: inputs, kills, requests or flips.
        survived: those that relens handled as it promises.
        defects: a sentence for each of the others.
    """

    tried: int = 0
    survived: int = 0
    defects: list[str] = field(default_factory=list)

    def note(self, defect: str | None) -> None:
        """Count one try, and its defect if there is one."""
        self.tried += 1
        if defect is None:
            self.survived += 1
        else:
            self.defects.append(defect)
