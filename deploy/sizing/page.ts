/** Writes deploy/SIZING.md from the measured figures and the formulas (`npm run generate`). A test fails when the page is out of date. */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { COSTS, type CommandCost, type Figures, readFigures } from "./figures.ts";
import { bytesOf, bytesPerCheckpoint, type Demand, indexRowsOf, LIMIT_NAMES, writesOf } from "./formulas.ts";
import { CHOICES, PUBLISHED } from "./limits.ts";
import { demandOf } from "./options.ts";
import { type Plan, planFor } from "./plan.ts";
import { byteText, countText, LIMIT_WORDS, processText, STREAM_HOURS, shareText } from "./wording.ts";

export const SIZING_PAGE = fileURLToPath(new URL("../SIZING.md", import.meta.url));

const AGENTS: readonly (readonly [name: string, agents: number])[] = [
  ["10 (a laptop)", 10],
  ["100", 100],
  ["10,000", 10_000],
  ["100,000", 100_000],
  ["1,000,000", 1_000_000],
  ["10,000,000", 10_000_000],
];
const CHECKPOINTS = [1e6, 1e8, 1e9] as const;
/** The agents of the table of checkpoints, of which only the number of checkpoints changes. */
const AGENTS_OF_CHECKPOINTS = 10_000;

type Row = readonly (string | number)[];

/** With padded columns, as `npm run format` leaves it. */
function table(head: Row, rows: readonly Row[]): string {
  const cells = [head, ...rows].map((row) => row.map(String));
  const widths = head.map((_, i) => Math.max(3, ...cells.map((row) => row[i]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(" | ")} |`;
  const [first = [], ...others] = cells;
  return [first, widths.map((width) => "-".repeat(width)), ...others].map(line).join("\n");
}

export function sizingPage(): string {
  const figures = readFigures();
  return `${[
    INTRODUCTION,
    "## Agents",
    agentTable(figures),
    AFTER_AGENTS,
    "## Checkpoints",
    checkpointTable(figures),
    "## What is reached first, and what to do",
    limitTable(figures),
    REMEDIES,
    "## Measured figures",
    measured(figures),
    "## Formulas",
    FORMULAS,
    "## Limits of FoundationDB and NATS",
    "Published by others and not measured here. A figure of another machine is no promise for yours.",
    table(
      ["limit", "published"],
      Object.values(PUBLISHED).map(({ what, text, source }) => [what, `${text} ([source](${source}))`]),
    ),
    "## Choices",
    table(
      ["choice", "value"],
      Object.values(CHOICES).map(({ text, value }) => [text, value.toLocaleString("en-US")]),
    ),
  ].join("\n\n")}\n`;
}

const plans = (figures: Figures): readonly (readonly [string, Plan])[] =>
  AGENTS.map(([name, agents]) => [name, planFor(figures, demandOf({ agents }))]);

function agentTable(figures: Figures): string {
  const rows = plans(figures).map(([name, plan]): Row => {
    const { rates, storage, processes, fleets, first } = plan;
    return [
      name,
      countText(rates.checkpoints),
      countText(rates.heartbeats),
      byteText(storage.store),
      fleets.toLocaleString("en-US"),
      processText(plan),
      processes.nats_servers,
      processes.foundationdb === 0 ? "LMDB" : processes.foundationdb,
      `${LIMIT_WORDS[first.limit].name}, ${shareText(first.use)}`,
    ];
  });
  const head = [
    "agents",
    "checkpoints/s at the peak",
    "heartbeats/s",
    "store, without copies",
    "fleets",
    "writers / readers / coordinators / watchdogs of each",
    "nats-servers of each",
    "FoundationDB processes of each",
    "first limit of a single fleet, and its use",
  ];
  return table(head, rows);
}

function checkpointTable(figures: Figures): string {
  const rows = CHECKPOINTS.map((checkpoints): Row => {
    const demand: Demand = demandOf({ agents: AGENTS_OF_CHECKPOINTS, checkpoints });
    const { storage, processes, fleets, first } = planFor(figures, demand);
    return [
      checkpoints.toLocaleString("en-US"),
      byteText(storage.store),
      byteText(storage.disk),
      countText(checkpoints * indexRowsOf(figures.counts.costs.create)),
      fleets,
      processes.foundationdb,
      `${LIMIT_WORDS[first.limit].name}, ${shareText(first.use)}`,
    ];
  });
  const head = [
    "kept checkpoints, 4 KB",
    "store, without copies",
    "disk, three copies",
    "index rows, at most",
    "fleets",
    "FoundationDB processes of each",
    "first limit of a single fleet, and its use",
  ];
  return `With ${AGENTS_OF_CHECKPOINTS.toLocaleString("en-US")} agents. One checkpoint of 4 KB takes ${byteText(
    bytesPerCheckpoint(figures.counts, CHOICES.bytes.value),
  )} of the store, with its audit entries, its index rows and its finalization.\n\n${table(head, rows)}`;
}

function limitTable(figures: Figures): string {
  const rows = LIMIT_NAMES.map((limit): Row => {
    const { name, remedy } = LIMIT_WORDS[limit];
    return [name, limitOf(figures, limit), remedy];
  });
  return table(["limit of one fleet", "reached at, by these figures", "what to do"], rows);
}

/** The demand at which a single fleet reaches a limit. */
function limitOf({ counts, times }: Figures, limit: (typeof LIMIT_NAMES)[number]): string {
  const core = 1e6 * CHOICES.use.value;
  switch (limit) {
    case "watchdog_time":
      return `${countText((core / times.heartbeat.watchdog) * CHOICES.heartbeat_s.value)} agents`;
    case "watchdog_memory":
      return `${countText(CHOICES.heap_bytes.value / counts.memory.watchdog_bytes_per_agent)} agents`;
    case "index":
      return `${countText(core / times.commit.reader)} checkpoints/s`;
    case "event_stream":
      return `${countText(core / times.commit.nats_server)} checkpoints/s`;
    case "store_processes":
      return `${PUBLISHED.fdb_processes.value} processes`;
    case "store_bytes":
      return `${countText(PUBLISHED.fdb_bytes.value / bytesPerCheckpoint(counts, CHOICES.bytes.value))} checkpoints of 4 KB`;
  }
}

function measured({ counts, times }: Figures): string {
  const costRow = (name: string, cost: CommandCost): Row => [
    `\`${name}\``,
    writesOf(cost),
    Object.entries(cost.transactions)
      .map(([label, { writes, keys }]) => `${label} ${writes} (${keys})`)
      .join(", "),
    byteText(bytesOf(cost, "kept")),
    byteText(bytesOf(cost, "temporary")),
    indexRowsOf(cost),
    Object.entries(cost.messages)
      .map(([stream, { messages, bytes }]) => `${stream} ${messages} (${byteText(bytes)})`)
      .join(", "),
    byteText(cost.transaction_bytes_max),
  ];
  const { create } = counts.costs;
  const { machine, commit, heartbeat } = times;
  const memory = byteText(counts.memory.watchdog_bytes_per_agent);
  return [
    "Counted on a real fleet, command after command (`test/load/sizing`). The counts do not depend on the machine. " +
      "`handoff` is all of it, with the checkpoint of each agent; `recovery` begins with the first checkpoint of the agent that fails.",
    table(
      [
        "command",
        "commits",
        "transactions, with the keys that each writes",
        "kept",
        "kept for 48 h",
        "index rows",
        "messages in streams",
        "largest transaction",
      ],
      COSTS.map((name) => costRow(name, counts.costs[name])),
    ),
    `\`create\` has a body of ${byteText(counts.bodies.create)}, \`create_large\` of ${byteText(counts.bodies.create_large)}; bodies over 8 KB are compressed. The rows of \`create\`:`,
    table(
      ["rows", "number", "bytes"],
      Object.entries(create.stored).map(([family, { rows, bytes }]) => [`\`${family}\``, rows, bytes]),
    ),
    `Index rows are the most that there can be: of checkpoints that are indexed together, each word has one row. A queued checkpoint of 4 KB takes ${byteText(counts.queued.bytes)} of \`FLEET_QUEUE\` until it is applied, a heartbeat ${counts.heartbeat.bytes} bytes, which no stream stores, and an agent ${memory} in the memory of each watchdog.`,
    `Processor time, in µs, on ${machine.cores} cores of ${machine.cpu} with Node ${machine.node} and nats-server ${machine.nats_server}, of which other programs used ${machine.busy_percent} % when it began, with LMDB in place of FoundationDB. Other programs make these times longer, so they err on the safe side:`,
    table(
      ["each", "writer", "reader", "watchdog", "nats-server"],
      [
        [
          "commit of 4 KB, with its event and its index rows",
          commit.writer,
          commit.reader,
          "",
          commit.nats_server,
        ],
        ["heartbeat", "", heartbeat.reader, heartbeat.watchdog, heartbeat.nats_server],
      ],
    ),
  ].join("\n\n");
}

const INTRODUCTION = `# Sizing

Generated by \`npm run generate\` from \`deploy/sizing\`; do not edit. For another demand:

\`\`\`sh
npm run --silent sizing -- --agents 10000                               # prints "first limit of one fleet"
npm run --silent sizing -- --agents 1000000 --checkpoints 1e9 --json    # prints "watchdog"
\`\`\`

What a command costs is measured. The largest rows of the tables are computed from that and were never run: they show which limit is next and
what it costs, and no more than two digits of them mean anything. Measure your own agents (\`npm run sizing:measure\`, \`npm run bench\`).

A **fleet** here is one installation: the services, a NATS cluster and a FoundationDB cluster. Several fleets have nothing in common; each has
its own tenants.`;

const AFTER_AGENTS = `Each row keeps ${countText(100)} checkpoints of 4 KB for each agent. A fleet has two of each service so that one may fail. The runner and the
gateway are as many as your agents and callers need. Agents connect to \`nats-server\` once each, so their connections decide the number of
servers, long before messages do.

**Partitions** are the same in every row: ${LIMITS.queue_partition_count} of the queue and ${LIMITS.outbox_partition_count} of the outbox. Every writer takes part in all of them.`;

const REMEDIES = `**Heartbeats** are plain messages of NATS and have never been in JetStream: no stream, no disk, no copies. Each watchdog and each reader hears all
of them, so more watchdogs do not help. An agent sends one every ${CHOICES.heartbeat_s.value} s; \`heartbeatMs\` of \`runAgent\` with a longer \`silence_ms\` in the policy makes
them rarer, and detection slower by the same factor. Lists of agents remember ${LIMITS.agents_remembered_count_max.toLocaleString("en-US")} of them in each reader; detection has no such limit.

**The partition count** is a constant of the code (\`shared/protocol/limits.ts\`), not a setting, and cannot be changed online. The subjects of
queued commands and the keys of the outbox contain the partition, so a new number while either has entries would separate later commands of a task from
earlier ones, and with fewer partitions leave events unpublished. To change it: stop the agents, wait until \`fleet queue status\` shows no command and
\`fleet_outbox_depth\` is 0, stop all services, change the constant in all of them, remove the stream \`FLEET_QUEUE\`, and start them. It is rarely
worth it: the queue is used only while the store is away, and then drains ${LIMITS.queue_partition_count} commands at a time
(${LIMITS.queue_partition_count} commands / ${PUBLISHED.fdb_commit_ms.value} ms = ${countText((LIMITS.queue_partition_count / PUBLISHED.fdb_commit_ms.value) * 1_000)} commands/s).

**Tenants on several fleets**: one task, one agent and one query belong to one tenant, and nothing in a fleet reaches across tenants. So a tenant can be
given its own fleet: its agents get another \`FLEET_URL\`, and its tasks move with \`fleet export\` and \`fleet import\`. Fleet has no
directory of fleets, and a single tenant cannot be divided.

**The stream of events** holds ${STREAM_HOURS / 24} days or 4 GiB, the lesser. A consumer that is down for longer misses events, which are still in the audit trail.

**The queue** holds 8 GiB. Divide them by the bytes of a queued checkpoint and by the rate to get the outage of the store that it covers.`;

const FORMULAS = `\`\`\`
checkpoints/s  = agents × checkpoints per hour / 3600 × peak
commits/s      = checkpoints/s × (commits of create + finalize + handoffs × handoff + recoveries × recovery) + leases/s / 400
leases/s       = agents / (2/3 × silence timeout)
keys/s         = checkpoints/s × (keys of those transactions + index rows + events) + leases/s
heartbeats/s   = agents / seconds between two
store          = checkpoints × bytes of create and finalize + agents × bytes of take + 48 h × rate × bytes that are kept for 48 h
disk           = store × copies × overhead
processes      = rate × processor time / (1 s × planned use), at least two
FoundationDB   = the larger of keys/s × copies / writes of a process and disk / disk of a process, and half as many for logs and stateless roles
nats-servers   = the larger of processor time and agents / (connections of a server × planned use), at least three
fleets         = the highest use of a limit by a single fleet, rounded up
\`\`\``;

if (import.meta.main) {
  writeFileSync(SIZING_PAGE, sizingPage());
  process.stdout.write(`${SIZING_PAGE} written\n`);
}
