#!/bin/bash
# The health check of every service in the image: ready, or not. A shell, because a Node process for each check costs more than a service at rest.
exec 3<>"/dev/tcp/127.0.0.1/$FLEET_OPS_PORT" || exit 1
printf 'GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$FLEET_OPS_PORT" >&3
read -r _ status _ <&3
test "$status" = 200 && exit 0
# The reason, for `docker inspect`.
cat <&3 >&2
exit 1
