// Checks of the bus: version, credentials, sync policy, streams, copies, room and backlogs.

import { withoutPassword } from "../../../../../shared/bus/connection.ts";
import {
  isVersionAtLeast,
  OLDEST_SERVER,
  RECOMMENDED_SERVER,
} from "../../../../../shared/bus/server-check.ts";
import type { BusDiagnosis } from "../../../../../shared/protocol/diagnosis.ts";
import { LIMITS } from "../../../../../shared/protocol/limits.ts";
import { isNearlyFull } from "../../../../../shared/protocol/stream-fill.ts";
import { FINDING_STEPS } from "../../../rendering/operations/status.ts";
import { bytesText, capitalized, count, counted } from "../../../rendering/terminal/text.ts";
import { type CheckOutcome, failed, notChecked, orSound, sound, warning } from "../check-outcome.ts";
import { type BusFacts, type DoctorFacts, isReached } from "../facts.ts";

const MONITOR =
  "Set FLEET_NATS_MONITOR_URL of the services to the monitoring addresses of all nats-servers, such as http://nats-0:8222,http://nats-1:8222.";

export function checkConnection({ bus, url }: DoctorFacts): readonly CheckOutcome[] {
  if (!isReached(bus)) return [failed("bus.connection", bus.problem, bus.fix)];
  const { link } = bus;
  const at = url === "" ? "" : ` at ${withoutPassword(url)}`;
  return [sound("bus.connection", `nats-server ${link.serverVersion}${at} answers`), checkCredentials(bus)];
}

function checkCredentials({ withoutCredentials }: BusFacts): CheckOutcome {
  const code = "bus.credentials";
  if (withoutCredentials === "unknown")
    return notChecked(code, "the bus did not answer a connection without credentials in time");
  if (!withoutCredentials) return sound(code, "the bus refused a connection without credentials");
  return warning(
    code,
    "the bus accepts connections without credentials",
    "Start the standalone fleet without FLEET_AUTH=off. In a cluster run `fleet access init DIR`, start the nats-servers with DIR/nats.conf and without `no_auth_user`, and give each service its file in FLEET_NATS_CREDS.",
  );
}

/** The bus as the services see it, which have the rights that clients lack. */
export function checkBus(bus: BusFacts): readonly CheckOutcome[] {
  const known = bus.services.flatMap(({ diagnosis }) => diagnosis.bus ?? []);
  return [
    ...checkVersion(bus, known),
    ...(known.length === 0
      ? unread(bus)
      : [...checkSync(known), ...checkStreams(bus), ...checkCopies(known)]),
    ...(known.length === 0 ? [] : [...checkRoom(known), ...checkConsumers(known)]),
  ];
}

function unread({ unasked, services }: BusFacts): readonly CheckOutcome[] {
  const why =
    unasked?.problem ?? (services.length === 0 ? "no service answers" : "the bus answers no service");
  const codes = ["bus.sync", "bus.streams", "bus.replicas", "bus.storage", "bus.consumers"] as const;
  return codes.map((code) => notChecked(code, why));
}

function checkVersion({ link }: BusFacts, known: readonly BusDiagnosis[]): readonly CheckOutcome[] {
  const versionOf = new Map([
    [link.serverName, link.serverVersion],
    ...known.map((one): [string, string] => [one.server, one.server_version]),
    ...monitored(known).map((one): [string, string] => [one.server, one.server_version ?? ""]),
  ]);
  const versions = [...new Set(versionOf.values())].sort();
  const old = versions.filter((version) => !isVersionAtLeast(version, RECOMMENDED_SERVER));
  if (old.length === 0) return [sound("bus.version", `nats-server ${versions.join(", ")}`)];
  const named = [...versionOf].filter(([, version]) => old.includes(version));
  const found = `nats-server ${named
    .map(([name, version]) => `${version} (${name})`)
    .sort()
    .join(", ")} is older than ${RECOMMENDED_SERVER}`;
  const fix = `Install nats-server ${RECOMMENDED_SERVER} or newer on each machine of the bus, and restart the servers one after the other.`;
  const isRefused = old.some((version) => !isVersionAtLeast(version, OLDEST_SERVER));
  return [(isRefused ? failed : warning)("bus.version", found, fix)];
}

/** The servers whose monitoring address answers a service. */
const monitored = (known: readonly BusDiagnosis[]) =>
  known.flatMap(({ servers = [] }) =>
    servers.flatMap((one) => (one.server === null ? [] : { ...one, server: one.server })),
  );

/** The servers that services are connected to, and those that keep copies of streams. */
function namesOf(known: readonly BusDiagnosis[]): Set<string> {
  const keepers = known.flatMap(({ streams }) =>
    streams.flatMap(({ leader, followers }) => [
      ...(leader ? [leader] : []),
      ...followers.map(({ server }) => server),
    ]),
  );
  return new Set([...known.map(({ server }) => server), ...keepers]);
}

/** The monitoring addresses at which no service gets an answer of the bus. */
function silentAddresses(known: readonly BusDiagnosis[]): string[] {
  const all = known.flatMap(({ servers = [] }) => servers);
  const answering = new Set(all.flatMap(({ address, server }) => (server === null ? [] : [address])));
  return [...new Set(all.map(({ address }) => address))].filter((address) => !answering.has(address)).sort();
}

function checkSync(known: readonly BusDiagnosis[]): readonly CheckOutcome[] {
  const reports = [...known, ...monitored(known)];
  const unsafe = new Set(reports.flatMap((one) => (one.sync_always === false ? [one.server] : [])));
  const safe = new Set(reports.flatMap((one) => (one.sync_always === true ? [one.server] : [])));
  const answered = new Set([...unsafe, ...safe, ...monitored(known).map(({ server }) => server)]);
  const unknown = new Set([...namesOf(known)].filter((name) => !answered.has(name)));
  const silent = silentAddresses(known);
  const named = (names: ReadonlySet<string>) => [...names].sort().join(", ");
  const problems: CheckOutcome[] = [];
  if (unsafe.size > 0) {
    const fix =
      "Set `sync_interval: always` in the `jetstream` block of the server's configuration, and restart the server.";
    problems.push(failed("bus.sync", `${named(unsafe)} acknowledges before it syncs to disk`, fix));
  }
  if (unknown.size > 0) {
    const reason =
      silent.length > 0
        ? `no server of the bus answers at ${silent.join(", ")}`
        : "no service has its monitoring address";
    problems.push(
      notChecked("bus.sync", `the sync policy of ${named(unknown)} is not known: ${reason}`, MONITOR),
    );
  } else if (silent.length > 0) {
    problems.push(notChecked("bus.sync", `no server of the bus answers at ${silent.join(", ")}`, MONITOR));
  }
  return orSound(problems, () => sound("bus.sync", `${named(safe)} syncs to disk before it acknowledges`));
}

function checkStreams({ services }: BusFacts): readonly CheckOutcome[] {
  const byName = new Map<string, CheckOutcome>();
  for (const { diagnosis } of services) {
    for (const { stream, consumer, kind, detail, repaired, blocks } of diagnosis.findings) {
      const name = consumer === null ? stream : `${consumer} of ${stream}`;
      const found = `${name} is ${kind.replace("_", " ")}: ${detail}${repaired ? "; it was repaired just now" : ""}`;
      const fix = `${capitalized(FINDING_STEPS[kind] ?? "see the log of the services")}. Runbook: a stream or consumer is missing, altered, paused, sealed or full.`;
      byName.set(`${name} ${kind}`, (blocks ? failed : warning)("bus.streams", found, fix));
    }
  }
  const streams = new Set(
    services.flatMap(({ diagnosis }) => diagnosis.bus?.streams.map(({ name }) => name) ?? []),
  );
  return orSound([...byName.values()], () =>
    sound("bus.streams", `${counted(streams.size, "stream")} with the expected settings`),
  );
}

/** The same stream from several services: the answer with the most current followers is the newest enough. */
function streamsOf(known: readonly BusDiagnosis[]): BusDiagnosis["streams"] {
  return [...new Map(known.flatMap(({ streams }) => streams).map((one) => [one.name, one])).values()];
}

function checkCopies(known: readonly BusDiagnosis[]): readonly CheckOutcome[] {
  const streams = streamsOf(known);
  const problems = streams.flatMap(({ name, copies, copies_wanted, leader, followers }): CheckOutcome[] => {
    const restart =
      "Start the missing nats-server, and see its log. `nats server report jetstream` shows the progress.";
    if (leader === null)
      return [failed("bus.replicas", `${name} has no leader: it takes no messages`, restart)];
    const behind = followers.filter(({ current, offline }) => offline || !current);
    if (behind.length > 0) {
      const which = behind.map(({ server, offline, behind: lag }) =>
        offline ? `${server} is offline` : `${server} is ${counted(lag, "message")} behind`,
      );
      return [warning("bus.replicas", `${name}: ${which.join(", ")}`, restart)];
    }
    if (copies >= copies_wanted) return [];
    const fix = `Run ${count(copies_wanted)} nats-servers in the cluster. The services raise the copies within a minute, unless FLEET_STREAM_REPLICAS sets another number.`;
    return [
      warning(
        "bus.replicas",
        `${name} has ${count(copies)} of ${counted(copies_wanted, "copy", "copies")}`,
        fix,
      ),
    ];
  });
  return orSound(problems, () => {
    const fewest = Math.min(...streams.map(({ copies }) => copies));
    return sound("bus.replicas", `${counted(fewest, "copy", "copies")} of each stream, all current`);
  });
}

function checkRoom(known: readonly BusDiagnosis[]): readonly CheckOutcome[] {
  const storage = known.flatMap((one) => one.storage ?? [])[0];
  if (storage === undefined) return [notChecked("bus.storage", "the bus does not report its use of storage")];
  const { bytes, bytes_max } = storage;
  if (bytes_max === null)
    return [sound("bus.storage", `${bytesText(bytes)} used; each stream has its own limit`)];
  const text = `${bytesText(bytes)} of ${bytesText(bytes_max)} used`;
  if (!isNearlyFull({ bytes, bytesMax: bytes_max })) return [sound("bus.storage", text)];
  const fix = "Raise `max_file_store` of the servers, or `max_file` of the account, and restart the servers.";
  return [warning("bus.storage", `${text} by JetStream`, fix)];
}

function checkConsumers(known: readonly BusDiagnosis[]): readonly CheckOutcome[] {
  const largest = new Map(
    known.flatMap(({ consumers }) => consumers).map((one) => [`${one.name} of ${one.stream}`, one.pending]),
  );
  const late = [...largest].filter(([, pending]) => pending >= LIMITS.consumer_backlog_warn);
  const fix =
    "Start the service that reads it (see services.running), or more instances of it. `fleet queue status` shows the age of queued commands. Runbook: the queue is old, events are late.";
  return orSound(
    late.map(([name, pending]) =>
      warning("bus.consumers", `${counted(pending, "message")} wait for the consumer ${name}`, fix),
    ),
    () => sound("bus.consumers", `no consumer has ${count(LIMITS.consumer_backlog_warn)} messages to read`),
  );
}
