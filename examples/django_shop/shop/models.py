"""Orders."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """What somebody wants; confirmed_at is set by the job that confirms it."""

    article = models.CharField(max_length=100)
    confirmed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"order {self.pk} of {self.article}"
