"""What the HTTP surface says of itself: the OpenAPI document and the page that shows it."""
