"""The addresses in the guests. All are private (RFC 1918, RFC 4193); none is reachable from outside a guest."""


def guest_addresses(number: int) -> dict[str, str]:
    """Names and values for guest `number`: 1 for a lone guest and for a, 2 for b."""
    return {
        "rxe_address": f"10.77.0.{number}",
        "rxe_address6": f"fd77::{number}",
        "rxe_mac": f"02:00:00:00:77:{number:02x}",
        "siw_address": f"10.78.0.{number}",
        "siw_address6": f"fd78::{number}",
        "siw_mac": f"02:00:00:00:78:{number:02x}",
    }


def wire_addresses() -> dict[str, str]:
    """The two ends of --wire: r0 is on wire0, r1 on wire1."""
    names = {}
    for end in (0, 1):
        names[f"wire{end}_address"] = f"10.79.0.{end + 1}"
        names[f"wire{end}_address6"] = f"fd79::{end + 1}"
        names[f"wire{end}_mac"] = f"02:00:00:00:79:{end + 1:02x}"
    return names


def as_environment(addresses: dict[str, str], prefix: str = "") -> dict[str, str]:
    """The IP addresses as environment variables such as RDMAXX_TESTBED_RXE_ADDRESS."""
    return {
        f"RDMAXX_TESTBED_{prefix}{name.upper()}": value
        for name, value in addresses.items()
        if not name.endswith("_mac")
    }
