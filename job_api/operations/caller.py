"""Who asks, as far as operations care: whose jobs they may see, and for whom they may act."""

from __future__ import annotations

from dataclasses import dataclass

from shared.domain.errors import PermissionDenied
from shared.domain.identity import Owner
from shared.domain.scopes import JOBS_ADMIN, JOBS_ON_BEHALF


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller whose identity was checked.

    Attributes:
        subject: Owns what it creates, where it names no other owner.
        acts_for_others: May create for any owner.
        sees_all: Sees every owner's jobs, and what happened inside.
    """

    subject: Owner
    acts_for_others: bool = False
    sees_all: bool = False

    def acting_for(self, owner: Owner | None) -> Owner:
        """Return the owner to create for; None means the caller.

        Raises:
            PermissionDenied: It is another one, and the caller may not act for others.
        """
        if owner is None or owner == self.subject:
            return self.subject
        if not self.acts_for_others:
            raise PermissionDenied(JOBS_ON_BEHALF)
        return owner

    def looking_at(self, owner: Owner | None) -> Owner | None:
        """Return the owner whose jobs are to be listed; None stands for all of them.

        Raises:
            PermissionDenied: It is another one, and the caller may not see all.
        """
        if self.sees_all:
            return owner
        if owner is not None and owner != self.subject:
            raise PermissionDenied(JOBS_ADMIN)
        return self.subject

    def sees(self, owner: Owner) -> bool:
        return self.sees_all or owner == self.subject
