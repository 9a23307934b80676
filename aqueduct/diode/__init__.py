"""The two ends of a one-way link, and a resend: loops made of aqueduct.io and the pure aqueduct.link."""
