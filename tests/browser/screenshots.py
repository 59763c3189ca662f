"""Makes the pictures of README anew: `python -m tests.browser.screenshots`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.api.serving import loaded_with
from tests.browser.looking import Page
from tests.browser.serving import browsing, missing, working

FOLDER = Path(__file__).parents[2] / "topologies/restaurant_approval"
ORDERS = (
    ("Ann Archer", "Roma", "2 pizza margherita, 1 salad", "27.50"),
    ("Ben Baker", "Roma", "1 calzone", "11.00"),
    ("Chloé Durand", "Chez Luc", "3 crêpes, 1 cidre", "31.20"),
)


def main() -> None:
    if missing():
        sys.exit(missing())
    with working(loaded_with()) as worker, tempfile.TemporaryDirectory() as profile, browsing(Path(profile)) as driver:
        for number, (customer, restaurant, items, amount) in enumerate(ORDERS):
            order = {"customerName": customer, "restaurantName": restaurant, "items": items, "totalAmount": amount}
            worker.waiting(f"order-{number}", **order)
        page = Page(driver, worker.url)
        for scheme in ("light", "dark"):
            page.scheme(scheme)
            page.width(1200, 780)
            page.go()
            page.open_first()
            page.choose("declined")
            page.fill("declineReason", "the oven is cold")
            page.run("document.activeElement.blur(); scrollTo(0, 0)")
            page.until("#line", "Live")
            driver.save_screenshot(str(FOLDER / f"inbox_{scheme}.png"))


if __name__ == "__main__":
    main()
