"""Views that place and show orders."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from shop.jobs import CONFIRM_ORDER, producer
from shop.models import Order


@csrf_exempt  # an example for curl
@require_POST
def place_order(request: HttpRequest) -> HttpResponse:
    """Store an order and enqueue its confirmation. "cancel" makes the transaction fail after both."""
    try:
        with transaction.atomic():
            order = Order.objects.create(article=request.POST.get("article", "")[:100])
            # Not before the commit: a worker might read the order before it is there.
            transaction.on_commit(lambda: producer().enqueue(CONFIRM_ORDER, {"order": order.pk}))
            check_stock(cancelled="cancel" in request.POST)
    except LookupError as error:
        return JsonResponse({"error": str(error)}, status=409)
    return JsonResponse({"order": order.pk}, status=201)


def check_stock(*, cancelled: bool) -> None:
    """Raise LookupError if the order cannot be accepted. This rolls the transaction back."""
    if cancelled:
        raise LookupError("this order is cancelled, and nothing of it remains")


@require_GET
def show_order(request: HttpRequest, order: int) -> HttpResponse:  # noqa: ARG001 - Django passes it
    """Show an order and whether it is confirmed."""
    found = Order.objects.filter(pk=order).first()
    if found is None:
        return JsonResponse({"error": "there is no such order"}, status=404)
    return JsonResponse({"order": order, "article": found.article, "confirmed": found.confirmed_at is not None})
