# One image for the six services: `docker run IMAGE serve router`, or `docker run --entrypoint python IMAGE -m pentad.services.router`.
# BASE and BUILD may be any two images with the same Python >= 3.11 at the same path; BASE needs no shell and no pip.
ARG BUILD=python:3.12.14-slim-bookworm@sha256:0f5b26b9518d002b6173fd61daad821fa340635ebfec5bba471013f9ca114579
ARG BASE=python:3.12.14-slim-bookworm@sha256:0f5b26b9518d002b6173fd61daad821fa340635ebfec5bba471013f9ca114579

FROM ${BUILD} AS build
# Without a package index: put the wheels of both locks into wheels/ and give --build-arg PIP_NO_INDEX=1.
ARG PIP_NO_INDEX=
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements-runtime.lock requirements-build.lock ./
COPY requirements-runtime.lock wheels*/* wheels/
# Two environments: one that builds and stays behind, one without pip that is shipped.
RUN python3 -m venv /build && python3 -m venv --without-pip /opt/pentad && mkdir -p /out/data /out/records /out/files \
 && /build/bin/pip install --quiet --require-hashes --only-binary :all: --find-links wheels -r requirements-build.lock \
 && /build/bin/pip --python /opt/pentad/bin/python install --quiet --require-hashes --only-binary :all: \
    --find-links wheels -r requirements-runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY clients clients
COPY contracts contracts
COPY shared shared
COPY services services
COPY pentad pentad
# Bytecode is written here, as nothing can write it under a read-only root, and not compared with times that COPY may change.
RUN /build/bin/pip wheel --quiet --no-build-isolation --no-deps --no-index --wheel-dir /out/wheel . \
 && /build/bin/pip --python /opt/pentad/bin/python install --quiet --no-deps --no-index /out/wheel/*.whl \
 && /opt/pentad/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/pentad/lib

FROM ${BASE}
# The base's own pip is a way in that nothing here needs.
RUN ["python3", "-c", "import glob, os, shutil; [shutil.rmtree(p) if os.path.isdir(p) else os.remove(p) \
    for n in ('bin/pip*', 'lib/python3.*/ensurepip', 'lib/python3.*/site-packages/*') for p in glob.glob('/usr/local/' + n)]"]
# Its library comes without bytecode, and would be compiled anew at every start and every health check.
RUN ["python3", "-c", "import subprocess, sys, sysconfig; subprocess.run([sys.executable, '-m', 'compileall', '-q', '-j', '0', \
    '-x', '/(test|tests|idlelib|lib2to3|tkinter|turtledemo|site-packages)/', '--invalidation-mode', 'unchecked-hash', \
    sysconfig.get_path('stdlib')], check=True)"]
COPY --from=build /opt/pentad /opt/pentad
# Volumes take their owner from these.
COPY --from=build --chown=10001:10001 /out/data /data
COPY --from=build --chown=10001:10001 /out/records /records
COPY --from=build --chown=10001:10001 /out/files /files
# Plugins of yours: an image FROM this one that copies them to /plugins, or a volume there.
ENV PATH=/opt/pentad/bin:/usr/local/bin:/usr/bin:/bin PYTHONPATH=/plugins PENTAD_DATA_DIR=/data \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
STOPSIGNAL SIGTERM
ENTRYPOINT ["pentad"]
