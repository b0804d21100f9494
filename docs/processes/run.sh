#!/bin/sh
# Runs the six services as plain processes, as many of each as wanted, and starts again what dies: docs/run-as-processes.md.
# Settings come from the environment, and from the file that ENV_FILE names. Ctrl-C or SIGTERM stops all in order.
set -eu

: "${PENTAD:=pentad}" "${ENV_FILE:=pentad.env}" "${LOGS:=logs}" "${RUN:=run}" "${GATEWAY_PORT:=8080}"
: "${ROUTERS:=1}" "${TASK_RUNNERS:=1}" "${TOOL_WORKERS:=1}" "${EMBEDDINGS:=1}" "${ARCHIVERS:=1}"

if [ -f "$ENV_FILE" ]; then
  set -a
  . "$(cd "$(dirname "$ENV_FILE")" && pwd)/$(basename "$ENV_FILE")"
  set +a
fi
: "${REDIS_URL:?set REDIS_URL in $ENV_FILE to the address of your Redis, as redis://:PASSWORD@127.0.0.1:6379/0}"
command=$PENTAD
unset PENTAD # no setting of the services
umask 077
mkdir -p "$LOGS" "$RUN"

# Keep one process running until SIGTERM: keep NAME SERVICE [OPTION...]
keep() {
  name=$1 child= stopping=
  shift
  trap 'stopping=1; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null || :' TERM
  while [ -z "$stopping" ]; do
    "$command" serve "$@" >>"$LOGS/$name.log" 2>&1 &
    child=$!
    echo "$child" >"$RUN/$name.pid"
    while kill -0 "$child" 2>/dev/null; do # a signal ends a wait early
      code=0
      wait "$child" || code=$?
    done
    [ -n "$stopping" ] || {
      echo "$name has ended ($code), see $LOGS/$name.log: it is started again in a second" >&2
      sleep 1
    }
  done
  rm -f "$RUN/$name.pid"
}

keepers=
# Keep COUNT processes of a service: several COUNT SERVICE [OPTION...]
several() {
  count=$1 number=1
  shift
  while [ "$number" -le "$count" ]; do
    keep "$1-$number" "$@" &
    keepers="$keepers $!"
    number=$((number + 1))
  done
}

# The gateway first, so that nobody is answered who would have to ask again; the others hand their work back.
stop() {
  trap '' INT TERM
  for keeper in $keepers; do
    kill -TERM "$keeper" 2>/dev/null || :
    while kill -0 "$keeper" 2>/dev/null; do wait "$keeper" || :; done
  done
  exit 0
}

trap stop TERM
trap '' INT # what is started here leaves Ctrl-C to this script
several 1 gateway --port "$GATEWAY_PORT"
several "$ROUTERS" router
several "$TASK_RUNNERS" task-runner
several "$TOOL_WORKERS" tool-worker
several "$EMBEDDINGS" embedding
several "$ARCHIVERS" archiver
trap stop INT TERM
echo "started; logs in $LOGS, ids of processes in $RUN"
while :; do wait || :; done
