"""What the gateway says about itself: an OpenAPI document, and a page that shows it."""

from dicast_gateway.openapi.document import document
from dicast_gateway.openapi.page import document_routes

__all__ = ["document", "document_routes"]
