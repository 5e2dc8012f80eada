# voxloom on CPUs. The image runs as any user, on a read-only root file system with a writable
# /tmp, without a network of its own, and listens on $PORT. See docs/docker.md.
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
RUN python3 -m venv /opt/voxloom
# What others wrote comes first: a change in this project's code does not install it again.
COPY pyproject.toml ./
RUN python3 -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > requirements.txt \
    && /opt/voxloom/bin/pip install -r requirements.txt
COPY README.md LICENSE NOTICE ./
COPY engine engine
COPY server server
COPY worker worker
# pip would be of no use on a read-only file system. Bytecode cannot be written there either, so it
# is made here, and never checked against the sources, which cannot change.
RUN /opt/voxloom/bin/pip install --no-deps . \
    && /opt/voxloom/bin/pip uninstall --yes setuptools pip \
    && find /opt/voxloom/lib -type d '(' -name tests -o -path '*/onnx/backend/test' ')' -prune -exec rm -r {} + \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/voxloom/lib

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="voxloom" \
      org.opencontainers.image.description="Text-to-speech server with OpenAI's API" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/voxloom /opt/voxloom
# ONNX Runtime's official Linux builds report to their maker, from 1.29 on, unless told not to.
ENV PATH=/opt/voxloom/bin:$PATH \
    ORT_DISABLE_TELEMETRY=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    VOXLOOM_HOST=0.0.0.0 \
    PORT=8000
EXPOSE 8000
USER 1000:1000
WORKDIR /tmp
STOPSIGNAL SIGTERM
# http.client, unlike urllib, never asks a proxy.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python3", "-I", "-S", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['PORT']), timeout=4); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["voxloom"]
CMD ["serve"]
