"""The URLs of the shop."""

from __future__ import annotations

from django.urls import path

from shop.views import place_order, show_order

urlpatterns = [path("orders", place_order), path("orders/<int:order>", show_order)]
