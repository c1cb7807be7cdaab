# Built with nothing but the locked packages; runs as a number, on a read-only root, with no pip in it.
FROM python:3.13-slim AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv --without-pip /opt/hami-bot
COPY requirements.lock requirements-build.lock ./
RUN pip install --require-hashes -r requirements-build.lock \
 && pip --python /opt/hami-bot/bin/python install --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY bot bot
COPY handlers handlers
COPY playbooks playbooks
# There is no git here to ask for the version: docker build --build-arg VERSION=1.2.3
ARG VERSION
# The bytecode is unchecked: no file changes any more, and a copy's times need not be the original's.
RUN SETUPTOOLS_SCM_PRETEND_VERSION=$VERSION pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
 && pip --python /opt/hami-bot/bin/python install --no-deps --no-index dist/*.whl \
 && python -m compileall -q --invalidation-mode unchecked-hash /opt/hami-bot/lib

FROM python:3.13-slim
COPY --from=build /opt/hami-bot /opt/hami-bot
ENV PATH=/opt/hami-bot/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["hami-bot"]
