"""Runs as OpenTelemetry spans and metrics (extra `otel`)."""
