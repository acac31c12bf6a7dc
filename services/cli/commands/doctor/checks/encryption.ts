// Proof of encryption in transit: between this machine, the bus, the services and the store.

import { isLoopbackHost } from "../../../../../shared/bus/transport.ts";
import { connectionName } from "../../../../../shared/sdk/client/diagnosis.ts";
import { type CheckOutcome, failed, notChecked, orSound, sound } from "../check-outcome.ts";
import type { BusFacts } from "../facts.ts";

const TLS =
  "Give the nats-server a `tls` block with its certificate, or the standalone fleet FLEET_NATS_SERVER_CERT and FLEET_NATS_SERVER_KEY; then use a tls:// address.";

export function checkEncryption(bus: BusFacts): readonly CheckOutcome[] {
  return [...checkLinks(bus), checkListener(bus), ...checkStore(bus)];
}

/** This connection, and those of the services. */
function checkLinks({ link, services, unasked }: BusFacts): readonly CheckOutcome[] {
  const links = [
    { name: "this command", encrypted: link.encrypted, loopback: link.loopback },
    ...services.flatMap(({ diagnosis }) =>
      diagnosis.bus === null
        ? []
        : [
            {
              name: connectionName(diagnosis),
              encrypted: diagnosis.bus.encrypted,
              loopback: diagnosis.bus.loopback,
            },
          ],
    ),
  ];
  const open = links.filter(({ encrypted, loopback }) => !encrypted && !loopback);
  const problems = open.map(({ name }) =>
    failed("encryption.bus", `${name} reaches the bus over a network without TLS`, TLS),
  );
  const protectedBy = links.every(({ encrypted }) => encrypted) ? "TLS" : "TLS, or stay on one machine";
  const own = unasked === null ? `all ${links.length} connections have` : "this connection has";
  return orSound(problems, () => sound("encryption.bus", `${own} ${protectedBy}`));
}

/** A listener on loopback is reached by no other machine. */
function checkListener({ link, plainText }: BusFacts): CheckOutcome {
  if (plainText === false) return sound("encryption.listener", "the bus refused a message without TLS");
  if (plainText === "unknown")
    return notChecked("encryption.listener", "the bus did not answer a message without TLS in time");
  if (isLoopbackHost(link.listenHost))
    return sound("encryption.listener", `the bus reads clear text, and listens on ${link.listenHost} only`);
  return failed(
    "encryption.listener",
    `the bus listens on ${link.listenHost || "an unknown address"} and reads messages without TLS`,
    TLS,
  );
}

function checkStore({ services }: BusFacts): readonly CheckOutcome[] {
  const clusters = services.flatMap(({ diagnosis }) => diagnosis.store.cluster ?? []);
  const [one] = clusters;
  if (one === undefined) return [];
  const plain = Math.max(...clusters.map(({ coordinators_plain }) => coordinators_plain));
  if (plain === 0)
    return [sound("encryption.store", "all coordinators of FoundationDB have TLS, or are on one machine")];
  return [
    failed(
      "encryption.store",
      `${plain} of ${one.coordinators} coordinators of FoundationDB have addresses without TLS`,
      "Give the fdbservers certificates, and change the coordinators to addresses that end with `:tls`: `fdbcli --exec 'coordinators IP:PORT:tls …'`.",
    ),
  ];
}
