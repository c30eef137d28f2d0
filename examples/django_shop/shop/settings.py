"""The least settings that the shop needs."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(os.environ.get("SHOP_FOLDER", Path(__file__).parents[1]))
SECRET_KEY = "an example, never served to anybody"  # noqa: S105 - nothing to protect
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
INSTALLED_APPS = ["shop"]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "shop.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": HERE / "shop.db", "OPTIONS": {"timeout": 20}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
SHOP_JOBS = os.environ.get("SHOP_JOBS", f"sqlite:///{HERE / 'jobs.db'}")
