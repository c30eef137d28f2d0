"""Orders."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """An order. The job that confirms it sets confirmed_at."""

    article = models.CharField(max_length=100)
    confirmed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"order {self.pk} of {self.article}"
