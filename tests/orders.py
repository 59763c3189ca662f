"""Orders of the restaurant approval, by who orders."""

ADA = {
    "requestId": "7b5e1f4c-3c5b-4c8e-9f7e-1b2f3c4d5e6f",
    "customerName": "Ada",
    "restaurantName": "Trattoria Uno",
    "items": "2 pizza, 1 salad",
    "totalAmount": "27.50",
    "currency": "EUR",
}
ANN = {
    "requestId": "5d52cb98-f502-3efa-a42b-d5e43972fcdb",
    "customerName": "Ann",
    "restaurantName": "Roma",
    "items": "pizza",
    "totalAmount": "12.50",
    "currency": "EUR",
}
