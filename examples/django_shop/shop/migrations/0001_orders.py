"""The table of orders."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Create it."""

    initial = True
    operations = [  # noqa: RUF012 - Django's way
        migrations.CreateModel(
            "Order",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("article", models.CharField(max_length=100)),
                ("confirmed_at", models.DateTimeField(null=True)),
            ],
        )
    ]
