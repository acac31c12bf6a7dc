#!/bin/sh
# `fleet hook <vendor> <event>`, as the settings of agent programs call it. It runs at every tool call of an agent, and a shell starts in
# a fraction of the time of Node. The event is on disk before the helper process finds it; its answer is a file too.
#
# What is not usual is left to hook.mjs: no helper runs, the folder belongs to another user, the event is large, its secrets cannot be
# removed here, or it must be sealed, which no shell can do. The exit code is always 0.

hook=$1 vendor=$2 event=$3
here=${0%/*}
option=$4 home=$5
# The installed command names the fleet. FLEET_HOME counts for an agent that a runner started: in the shell of a user it may name another.
# Then the variables of the other bus must not count either. They stay in the environment, because their values may be secrets to remove.
installed=
if [ "$option" = --home ]; then
  if [ -z "${FLEET_HOME:-}" ] || [ "$FLEET_HOME" -ef "$home" ]; then
    FLEET_HOME=$home
    export FLEET_HOME
  elif [ -z "${FLEET_AGENT_ID:-}" ] && [ "$FLEET_HOME" != "$home" ]; then
    installed=$home
  fi
fi
folder=${FLEET_HOOK_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/fleet/hooks}
payload=$(cat)
umask 077

# In a checkout the pinned Node, as the command itself does.
node=$here/../../node_modules/.bin/node
{ [ -d "$here/../../services" ] && [ -x "$node" ]; } || node=node

with_node() {
  printf '%s' "$payload" | "$node" "$here/../local/fleet.mjs" "$hook" "$vendor" "$event" ${option:+"$option" "$home"}
  exit 0
}

# A process that has ended and whose parent does not ask is on Linux still there.
helper_runs() {
  kill -0 "$helper" 2>/dev/null || return 1
  state=
  { read -r state <"/proc/$helper/stat"; } 2>/dev/null
  case $state in *') Z '*) return 1 ;; esac
}

start_helper() {
  started=1
  "$node" "$here/start-helper.mjs" >/dev/null 2>&1 </dev/null &
}

[ -z "${FLEET_SPOOL_KEY:-}" ] || with_node
case $vendor in claude-code | codex | gemini) ;; *) with_node ;; esac
case $event in '' | *[!A-Za-z]*) with_node ;; esac
case $PWD in *'
'*) with_node ;; esac
# The limit of an event, as in hook.mjs.
[ ${#payload} -le 100000 ] || with_node
[ -O "$folder" ] || with_node
{ read -r helper <"$folder/helper.pid"; } 2>/dev/null
case $helper in '' | *[!0-9]*) with_node ;; esac
helper_runs || with_node

# Milliseconds for which the agent waits for an answer at most, as in hook.mjs.
case $event in
  SessionStart | BeforeAgent) wait=2000 ;;
  Stop | AfterAgent) wait=75 ;;
  *) wait=0 ;;
esac
case ${FLEET_HOOK_WAIT:-0} in
  0 | *[!0-9]*) ;;
  *) [ $wait -eq 0 ] || wait=$FLEET_HOOK_WAIT ;;
esac

# Under its final name an event is whole.
name=0$(date +%s)000-$$.event
part=$folder/inbox/$name.part
{
  printf '%s\n' "$payload" | LC_ALL=C VENDOR=$vendor EVENT=$event WAIT=$wait CWD=$PWD INSTALLED=$installed awk -f "$here/event.awk" >"$part" &&
    mv -f "$part" "$folder/inbox/$name"
} 2>/dev/null || {
  rm -f "$part"
  with_node
}
[ $wait -eq 0 ] && exit 0

answer=$folder/answers/$name
pause=0.005 waited=0 started=
while [ $waited -lt "$wait" ]; do
  sleep $pause 2>/dev/null
  if [ -e "$answer" ]; then
    [ -s "$answer" ] && cat "$answer"
    exit 0
  fi
  # It was killed just now: the next one finds the event.
  [ "$started" ] || helper_runs || start_helper
  # With the start of `sleep`.
  if [ $waited -lt 100 ]; then waited=$((waited + 7)); else pause=0.02 waited=$((waited + 23)); fi
done
# The helper answers in time, also while the fleet hangs. So it is stopped, or gone, and another process has its number.
[ "$started" ] || start_helper
exit 0
