/** Runs one story: a fleet with its agents on simulated time, its faults, its repair, and the verdict of the fault run's checker. */
import { setTimeout as sleep } from "node:timers/promises";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { encryptBytes } from "../../../shared/integrity/encryption/encrypted-bytes.ts";
import { dataKeyOf } from "../../../shared/integrity/encryption/secret-key.ts";
import { newSalt } from "../../../shared/integrity/seal.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { heartbeatIn } from "../../fleet/faults/agents/heartbeat-recorder.ts";
import { instant, pairedHistory } from "../../fleet/faults/agents/history.ts";
import { judge, type Verdict } from "../../fleet/faults/checker/checker.ts";
import type { Evidence, HeartbeatRecord, Violation } from "../../fleet/faults/checker/evidence.ts";
import type { BrokenName } from "../../fleet/faults/environment/broken-builds.ts";
import { HEARTBEAT_MS, LAUNCHED } from "../../fleet/faults/workers/task-kinds.ts";
import { seededRandom } from "../../load/workload.ts";
import { SimulatedBusServer } from "../bus/server.ts";
import { placeOn } from "../machine/machine.ts";
import { SimulatedDatabase } from "../store/database.ts";
import {
  agentsLoseFiles,
  endOf,
  OPERATOR,
  RUNNER,
  SERVICES,
  type Story,
  TAKERS,
  WORKER_PROGRAM,
} from "../story/story.ts";
import { Fingerprint } from "../time/fingerprint.ts";
import { SimulatedProcess } from "../time/processes.ts";
import { activeSimulation, simulate } from "../time/run.ts";
import { startTakers, startWorker, startWriterAgent } from "./agents.ts";
import {
  connectHost,
  OUTSIDE,
  openDisk,
  openMetrics,
  SharedHistory,
  SIMULATED_POLICIES,
  type WorldHost,
} from "./host.ts";
import { openMachines } from "./machines.ts";
import { heal, play } from "./nemesis.ts";
import { startOperator } from "./operators.ts";
import { placeSigningKey, protectionOf, UNPROTECTED } from "./protection.ts";
import { finish } from "./repair.ts";
import { startRunner } from "./runner.ts";
import { Supervised, superviseService } from "./services.ts";
import { Dispatcher } from "./tasks.ts";
import type { World } from "./world-parts.ts";

export interface StoryResult {
  readonly violations: readonly Violation[];
  readonly verdict: Verdict;
  readonly evidence: Evidence;
  /** When the faults and the work began: in milliseconds of the wall clock, and as `instant`. */
  readonly began: { readonly wall: number; readonly us: number };
  readonly commands: number;
  readonly simulatedMs: number;
  readonly events: number;
  readonly kills: number;
  /** The answers that a command waits on the disk of its agent. */
  readonly spooled: number;
  /** The agents that the runner has started and that have begun to work. */
  readonly launched: number;
  /** The recoveries that the operator has requested. */
  readonly requested: number;
  readonly storeFaults: SimulatedDatabase["counts"];
  /** Of the frames of the bus, the bytes of the disk, the recorded history and the events of the final state: equal for equal runs. */
  readonly digest: string;
}

const LIMITS = { limitMs: 900_000, eventsMax: 5_000_000 };
/** In the report about a run that does not end. */
const LINES_SHOWN = 20;
const WORK_POLL_MS = 200;

export async function runStory(story: Story, broken: BrokenName | null = null): Promise<StoryResult> {
  const { value, simulatedMs, events } = await simulate(story.seed, LIMITS, () => live(story, broken));
  return { ...value, simulatedMs, events };
}

async function live(story: Story, broken: BrokenName | null) {
  const fingerprint = new Fingerprint();
  const world = await openWorld(story, broken, fingerprint);
  const { host, agents, takers, services } = world;
  const began = { wall: Date.now(), us: instant() };
  if (story.healthyMs > 0) await world.dispatcher.startHealthy();
  await Promise.all([
    world.dispatcher.start(story, world.started),
    play(world, story),
    sleep(Math.max(story.healthyMs, endOf(story))),
  ]);
  await heal(world);
  // An agent that does not end its work makes the run count as stuck.
  while (world.hasWork()) await sleep(WORK_POLL_MS);
  const repaired = await finish(world);
  const history = pairedHistory(host.history.lines);
  const { heartbeats } = world;
  const silenceMs = SIMULATED_POLICIES.defaults.recovery?.silence_ms ?? 0;
  const lossMs = (story.bus.lostMessage ?? 0) > 0 ? HEARTBEAT_MS : 0;
  const { finalState } = repaired;
  const entries = [...finalState.tasks.values()].flatMap((task) => task.entries);
  const hasSpools = !agentsLoseFiles(story);
  const evidence = { ...history, finalState, heartbeats, silenceMs, lossMs, hasSpools };
  const verdict = judge(evidence);
  for (const line of host.history.lines) fingerprint.add("line", Buffer.from(JSON.stringify(line)));
  for (const event of finalState.events) fingerprint.add("event", Buffer.from(JSON.stringify(event)));
  return {
    violations: [...repaired.violations, ...verdict.violations],
    ...{ verdict, evidence, began },
    commands: verdict.checked.commands,
    kills: [...agents, ...takers, ...services].reduce((sum, { kills }) => sum + kills, 0),
    spooled: history.attempts.filter(({ outcome }) => outcome === "spooled").length,
    launched: history.lifecycle.filter(({ what, agent }) => what === "begins" && isLaunched(agent)).length,
    requested: entries.filter(({ op }) => op === "retry").length,
    storeFaults: host.database.counts,
    digest: fingerprint.digest(),
  };
}

/** The runner names agents by their type. */
const isLaunched = (agent: string): boolean => agent.startsWith(`${LAUNCHED}-`);

const NO_BYTES = Buffer.alloc(0);
const ANY_KEY = dataKeyOf(Buffer.alloc(32).toString("base64"))!;

/** The salts and nonces that an earlier simulation has left are used up, because they are not of this seed. */
function renewRandomness(): void {
  const { words } = activeSimulation()!;
  const takers = [newSalt, () => encryptBytes(ANY_KEY, NO_BYTES, NO_BYTES)];
  for (const take of takers) for (const before = words(); words() === before; ) take();
}

async function openWorld(story: Story, broken: BrokenName | null, fingerprint: Fingerprint): Promise<World> {
  renewRandomness();
  const random = seededRandom(story.seed);
  const server = new SimulatedBusServer({
    ...{ random, faults: { ...story.bus }, witness: OUTSIDE },
    observe: (connection, direction, frame) => fingerprint.add(direction + connection, frame),
  });
  const database = new SimulatedDatabase({
    random: seededRandom(story.seed + 1),
    observe: (change, bytes) => fingerprint.add(change, bytes),
  });
  const machines = openMachines({ seed: story.seed, server, fingerprint, host: () => host });
  const kills = {
    untilUs: instant() + endOf(story) * 1_000,
    share: story.killShare,
    random: Math.random,
  };
  const host: WorldHost = {
    ...{ server, database, machines, broken, kills, removes: story.removes, outage: "none" },
    // A broken build changes the rows that it writes, which it must be able to read.
    protection: broken === null ? protectionOf(story) : UNPROTECTED,
    ...{ disk: openDisk(), metrics: openMetrics(), history: new SharedHistory() },
    damage: (task, id) => dispatcher.damage(task, id),
  };
  activeSimulation()!.lastLines = () =>
    host.history.lines.slice(-LINES_SHOWN).map((line) => JSON.stringify(line));
  const setup = new SimulatedProcess("setup");
  placeOn(host.machines.services, setup);
  setup.run(() => placeSigningKey(host.protection, story));
  database.faults = story.store;
  const bus = await connectHost(host, { identity: OUTSIDE });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 200 * 1024 * 1024 }));
  const heartbeats: HeartbeatRecord[] = [];
  const stopRecording = await recordHeartbeats(bus, heartbeats);
  const services = SERVICES.flatMap((role) =>
    Array.from({ length: story.instances }, (_, index) => superviseService(host, role, index)),
  );
  await Promise.all(services.map((one) => one.ready()));
  const program = (name: string, start: (incarnation: string) => Promise<Stop>) =>
    new Supervised(name, host, start);
  const writers = story.steps.map((steps, n) => ({
    ...{ name: `agent-${n}`, left: { steps } },
    pauseMs: story.pauseMs,
  }));
  const agents = writers.map((options) =>
    program(options.name, (incarnation) => startWriterAgent(host, incarnation, options)),
  );
  const { rotates, recovers } = story;
  const operator = { name: OPERATOR, left: { acts: story.acts }, rotates, recovers };
  if (story.others.includes(OPERATOR))
    agents.push(program(OPERATOR, (incarnation) => startOperator(host, incarnation, operator)));
  const takers = story.others
    .filter((name) => name !== OPERATOR)
    .map((name) => program(name, (incarnation) => startTaker(host, incarnation, name)));
  const dispatcher = await Dispatcher.open(host);
  const hasWork = () => operator.left.acts > 0 || writers.some(({ left }) => left.steps > 0);
  return {
    ...{ host, services, agents, takers, dispatcher, hasWork },
    ...{ heartbeats, started: new Set(), bus, stopRecording },
  };
}

/** A program that accepts offers. */
function startTaker(host: WorldHost, incarnation: string, name: string): Promise<Stop> {
  if (name === WORKER_PROGRAM) return startWorker(host, incarnation, name);
  if (name === RUNNER) return startRunner(host, incarnation);
  const type = TAKERS.find((one) => one.name === name)?.type;
  if (type === undefined) throw new Error(`there is no program ${name}`);
  return startTakers(host, incarnation, type);
}

function recordHeartbeats(bus: World["bus"], heartbeats: HeartbeatRecord[]): Promise<Stop> {
  return bus.subscribe(SUBJECTS.everyHeartbeat, ({ body }) => {
    const heartbeat = heartbeatIn(body);
    if (heartbeat !== null) heartbeats.push(heartbeat);
  });
}
