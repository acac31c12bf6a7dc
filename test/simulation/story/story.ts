/** The story of a simulation: what the world does to a fleet, and how much the agents do. It follows from the seed, and can be cut shorter. */
import { TAKEN_TYPES } from "../../fleet/faults/agents/workload.ts";
import { seededRandom } from "../../load/workload.ts";
import type { BusFaults } from "../bus/faults/plan.ts";
import { NO_STORE_FAULTS, type StoreFaultPlan } from "../store/database.ts";

export type StoryEvent = { readonly at: number } & (
  | { readonly kind: "kill"; readonly program: string; readonly restartMs: number }
  /** The socket of the program breaks. */
  | { readonly kind: "cut"; readonly program: string }
  /** Nothing passes between the program and the bus. */
  | { readonly kind: "partition"; readonly program: string; readonly forMs: number }
  | { readonly kind: "restart_bus"; readonly forMs: number }
  | { readonly kind: "outage"; readonly how: "refuses" | "hangs"; readonly forMs: number }
  /** The services have a new first root key of the encryption: each is started again, one after the other. */
  | { readonly kind: "replace_root_key"; readonly everyMs: number }
  /** A machine loses its power: that of the store and all services, or that of all agents. */
  | { readonly kind: "power_cut"; readonly machine: "services" | "agents"; readonly forMs: number }
);

export interface Story {
  readonly seed: number;
  readonly events: readonly StoryEvent[];
  readonly bus: BusFaults;
  readonly store: StoreFaultPlan;
  /** The steps of each agent that writes. */
  readonly steps: readonly number[];
  readonly pauseMs: number;
  /** The processes of each service. */
  readonly instances: number;
  /** The programs beside the services and the agents that write. */
  readonly others: readonly string[];
  /** The tasks of workers. */
  readonly tasks: number;
  /** The tasks of agents that the runner starts. */
  readonly launched: number;
  /** The time in which a healthy agent works, in milliseconds. 0: there is none. */
  readonly healthyMs: number;
  /** The share of the kill points at which a program is killed. */
  readonly killShare: number;
  /** Whether the workers request that checkpoints of their tasks are damaged. */
  readonly damages: boolean;
  /** Whether retention is on. */
  readonly removes: boolean;
  /** The acts of the operator. */
  readonly acts: number;
  /** Whether the services sign what they commit. */
  readonly signs: boolean;
  /** Whether the operator replaces and revokes signing keys. */
  readonly rotates: boolean;
  /** Whether the operator requests recoveries, some of them of tasks whose agents are alive. */
  readonly recovers: boolean;
  /** Whether the rows of the store are encrypted. */
  readonly encrypts: boolean;
}

export const SERVICES = ["writer", "reader", "coordinator", "watchdog"] as const;
/** The programs that accept offers, one for each type of agent. */
export const TAKERS = TAKEN_TYPES.map((type) => ({ name: `takers-${type}`, type }));
/** The program that executes the tasks of workers. */
export const WORKER_PROGRAM = "worker-0";
/** The program that places holds, removes checkpoints, requests recoveries and changes signing keys. */
export const OPERATOR = "operator-0";
/** The program that starts agents as processes. */
export const RUNNER = "runner-0";
const OTHERS = [...TAKERS.map(({ name }) => name), WORKER_PROGRAM, OPERATOR, RUNNER];
const INSTANCES = 2;
const AGENTS = 3;
const FAULTS_MS = 8_000;
/** Longer than any silence of a healthy agent that counts as its failure. */
const HEALTHY_MS = 12_000;
/** The longest time between the restarts of two services. */
const REPLACEMENT_MS = 1_000;

/** The time after which the story has no more faults. */
export const endOf = ({ events }: Story): number =>
  Math.max(0, ...events.map((event) => event.at + ("forMs" in event ? event.forMs : 0)));

/** Whether agents may lose files that were not synced. */
export const agentsLoseFiles = ({ events }: Story): boolean =>
  events.some((event) => event.kind === "power_cut" && event.machine === "agents");

type Random = () => number;

const below = (random: Random, count: number): number => Math.floor(random() * count);
const share = (random: Random, most: number): number => (random() < 0.5 ? random() * most : 0);

/** A fault of any of these programs within the time. */
function eventOf(random: Random, programs: readonly string[], withinMs: number): StoryEvent {
  const program = (): string => programs[below(random, programs.length)]!;
  const at = Math.round(random() * withinMs);
  const forMs = Math.round(100 + random() ** 2 * 4_000);
  const dice = random();
  if (dice < 0.4) return { at, kind: "kill", program: program(), restartMs: Math.round(random() * 2_000) };
  if (dice < 0.55) return { at, kind: "cut", program: program() };
  if (dice < 0.7) return { at, kind: "partition", program: program(), forMs };
  if (dice < 0.78) return { at, kind: "restart_bus", forMs: Math.min(forMs, 1_500) };
  if (dice < 0.9) return { at, kind: "outage", how: random() < 0.5 ? "refuses" : "hangs", forMs };
  return {
    at,
    kind: "power_cut",
    machine: dice < 0.96 ? "services" : "agents",
    forMs: Math.min(forMs, 1_500),
  };
}

type Programs = Pick<Story, "instances" | "others" | "steps">;

const programsOf = ({ instances, others, steps }: Programs): string[] => [
  ...SERVICES.flatMap((role) => Array.from({ length: instances }, (_, index) => `${role}-${index}`)),
  ...steps.map((_, n) => `agent-${n}`),
  ...others,
];

interface Extent extends Programs {
  readonly events: number;
  readonly withinMs: number;
}

/** What a story of any length has: faults and their probabilities, and how the rows are protected. */
function conditionsOf(random: Random, { events, withinMs, ...programs }: Extent) {
  const names = programsOf(programs);
  const faults = Array.from({ length: events }, () => eventOf(random, names, withinMs));
  const encrypts = random() < 0.3;
  const replacements = encrypts && random() < 0.5 ? [replacementOf(random, withinMs)] : [];
  return {
    ...programs,
    events: [...faults, ...replacements].sort((a, b) => a.at - b.at),
    bus: {
      hopMs: { min: 0.2, max: 0.5 + random() * 5 },
      lateMessage: share(random, 0.05),
      lostMessage: share(random, 0.02),
      lostConfirmation: share(random, 0.05),
      lostAcknowledgement: share(random, 0.05),
      earlyRedelivery: share(random, 0.1),
      forgottenAcknowledgements: share(random, 0.3),
    },
    store: {
      latencyMs: random() * 3,
      conflicts: share(random, 0.1),
      unknown: share(random, 0.08),
      stalls: share(random, 0.01),
      stallMs: 3_000,
      pauses: share(random, 0.4),
      pauseMs: 1 + random() * 20,
    },
    ...signing(random),
    encrypts,
  };
}

const replacementOf = (random: Random, withinMs: number): StoryEvent => ({
  at: Math.round(random() * withinMs),
  kind: "replace_root_key",
  everyMs: Math.round(random() * REPLACEMENT_MS),
});

function signing(random: Random) {
  const signs = random() < 0.5;
  return { signs, rotates: signs && random() < 0.5 };
}

const randomOf = (seed: number): Random => seededRandom(Math.imul(seed, 0x9e3779b1) ^ 0x5f3759df);

/** A story of twice the size has twice the agents, each of which takes twice the steps in twice the time. */
export function storyOf(seed: number, size = 1): Story {
  const random = randomOf(seed);
  const steps = Array.from({ length: AGENTS * size }, () => (5 + below(random, 12)) * size);
  const extent = { events: below(random, 8) * size, withinMs: FAULTS_MS * size };
  const conditions = conditionsOf(random, { steps, instances: INSTANCES, others: OTHERS, ...extent });
  return {
    seed,
    ...conditions,
    pauseMs: 100 + random() * 900,
    tasks: below(random, 3) * size,
    launched: below(random, 2) * size,
    removes: random() < 0.3,
    healthyMs: random() < 0.3 ? HEALTHY_MS + below(random, 5_000) : 0,
    killShare: share(random, 0.03),
    damages: random() < 0.3,
    acts: conditions.rotates || random() < 0.3 ? (5 + below(random, 16)) * size : 0,
    recovers: random() < 0.5,
  };
}

const BRIEF_MS = 2_500;

/** A story of a few commands, for thousands of seeds: few of its services have a second process, and few of its programs are there. */
export function briefStoryOf(seed: number): Story {
  const random = randomOf(seed);
  const isRare = (): boolean => random() < 0.08;
  const hasTakers = random() < 0.3;
  const [hasWorker, hasRunner, hasOperator] = [isRare(), isRare(), isRare()];
  const others = [
    ...(hasTakers ? TAKERS.map(({ name }) => name) : []),
    ...(hasWorker ? [WORKER_PROGRAM] : []),
    ...(hasRunner ? [RUNNER] : []),
    ...(hasOperator ? [OPERATOR] : []),
  ];
  const steps = Array.from({ length: 1 + below(random, 2) }, () => 2 + below(random, 5));
  const extent = { events: below(random, 3), withinMs: BRIEF_MS };
  return {
    seed,
    ...conditionsOf(random, { steps, instances: isRare() ? INSTANCES : 1, others, ...extent }),
    pauseMs: 50 + random() * 250,
    tasks: hasWorker ? 1 : 0,
    launched: hasRunner ? 1 : 0,
    removes: random() < 0.3,
    healthyMs: 0,
    killShare: share(random, 0.1),
    damages: hasWorker && random() < 0.3,
    acts: hasOperator ? 5 : 0,
    recovers: random() < 0.5,
  };
}

/** The same story with retention and an operator. */
export const removing = (story: Story): Story => ({
  ...story,
  removes: true,
  acts: Math.max(story.acts, 15),
});

/** The same story with a healthy agent. */
export const watching = (story: Story): Story => ({
  ...story,
  healthyMs: Math.max(story.healthyMs, HEALTHY_MS),
});

/** The same story with damage. */
export const damaging = (story: Story): Story => ({
  ...story,
  damages: true,
  tasks: Math.max(story.tasks, 1),
});

/** The same work without faults. */
export const calm = (story: Story): Story => ({
  ...story,
  events: [],
  killShare: 0,
  damages: false,
  bus: story.bus.hopMs === undefined ? {} : { hopMs: story.bus.hopMs },
  store: { ...NO_STORE_FAULTS, latencyMs: story.store.latencyMs },
});
