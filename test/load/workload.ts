// The checkpoints that the agents write: about 4 KB each, all different, of words with a natural frequency. The seed determines
// them, so two runs send the same.

import type { CheckpointInput } from "../../shared/protocol/checkpoint.ts";

/** The size of an agent's input. The writer adds ids, times and the position in the chain; the canonical form has about 4,096. */
const INPUT_BYTES = 3_400;
const SENTENCES = 2_048;
const AGENT_TYPES = ["architecture", "implementation", "qa", "documentation"] as const;
const PHASES = ["planning", "implementing", "testing", "reviewing"] as const;

const WORDS = `the a of and to in for with from that is was are not when by on
  request response handler parser buffer queue cache index cursor snapshot transaction commit conflict retry timeout deadline
  lease fence checkpoint task agent session token budget prompt context summary decision assumption constraint dependency
  module function type interface error test coverage fixture migration schema column table row key value range prefix
  invoice order payment refund customer account address shipment inventory catalogue price discount tax currency ledger
  reads writes returns throws checks keeps drops splits merges sorts moves renames removes adds replaces validates encodes
  decodes compares counts waits wakes fails passes blocks resumes stops starts opens closes locks releases measures
  slow fast empty full stale fresh missing duplicate late early partial complete broken correct large small local remote
  before after because instead unless until while once again still only both every other first last next same own
  pagination authentication permission rate limit header body stream partition replica leader follower cluster node region
  latency throughput memory disk network thread worker process signal pipe socket port certificate secret rotation audit
  dashboard alert metric trace span log report export import upload download attachment thumbnail preview search filter`
  .split(/\s+/)
  .filter(Boolean);

/** A sequence of numbers in [0, 1) that the seed determines (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function sentence(random: () => number): string {
  const length = 6 + Math.floor(random() * 10);
  // Squared, so that words at the start of the list are frequent and words at its end are rare.
  const words = Array.from({ length }, () => WORDS[Math.floor(random() ** 2 * WORDS.length)]!);
  return `${words.join(" ")}.`;
}

export interface Workload {
  agentId(agent: number): string;
  taskId(task: number): string;
  checkpoint(agent: number, step: number): CheckpointInput;
}

const padded = (number: number, digits: number): string => String(number).padStart(digits, "0");

export function createWorkload(seed = 1, inputBytes = INPUT_BYTES): Workload {
  const random = seededRandom(seed);
  const sentences = Array.from({ length: SENTENCES }, () => sentence(random));
  return {
    agentId: (agent) => `agent-${padded(agent, 4)}`,
    taskId: (task) => `task-${padded(task, 6)}`,
    checkpoint(agent, step) {
      const own = seededRandom(Math.imul(seed, 0x9e3779b1) ^ (agent * 65_537 + step));
      const text = () => sentences[Math.floor(own() * SENTENCES)]!;
      const input = composed(agent, step, own, text);
      return filled(input, inputBytes, text);
    },
  };
}

/** Extends the partial work until the checkpoint has its size. */
function filled(input: CheckpointInput, bytes: number, text: () => string): CheckpointInput {
  const parts = [text()];
  for (let missing = bytes - JSON.stringify(input).length; missing > 0; missing -= parts.at(-1)!.length + 1)
    parts.push(text());
  const current_step = { description: text(), partial_work: parts.join(" ") };
  return { ...input, execution_state: { ...input.execution_state, current_step } };
}

function composed(agent: number, step: number, own: () => number, text: () => string): CheckpointInput {
  const file = () =>
    `src/${WORDS[17 + Math.floor(own() * 40)]}/${WORDS[60 + Math.floor(own() * 100)]}-${agent % 100}.ts`;
  const done = Array.from({ length: 1 + (step % 6) }, (_, i) => ({
    id: `step-${step - i}`,
    title: text(),
    files_modified: [file()],
  }));
  return {
    metadata: {
      agent_type: AGENT_TYPES[agent % AGENT_TYPES.length]!,
      session_id: `session-${agent}-${Math.floor(step / 50)}`,
      iteration: step,
      trigger: { reason: step % 10 === 0 ? "phase_transition" : "progress" },
      labels: { team: `team-${agent % 20}` },
    },
    execution_state: {
      phase: PHASES[Math.floor(step / 10) % PHASES.length]!,
      goal: text(),
      completed_items: done,
      pending_items: [{ title: text() }, { title: text() }],
      blocked_items: own() < 0.1 ? [{ title: text(), blocker: text() }] : [],
      current_focus: text(),
      resume_pointer: { next_action: text(), current_context: text() },
      progress_percent: step % 101,
    },
    context_summary: {
      key_decisions: [
        { decision: text(), rationale: text() },
        { decision: text(), rationale: text() },
      ],
      assumptions: [text()],
      constraints: [text()],
    },
    metrics: {
      tokens_consumed: 1_000 + step * 850 + Math.floor(own() * 500),
      context_tokens: 1_000 + step * 850,
      context_limit: 200_000,
      tools_invoked: step * 3,
      files_modified: [file(), file()],
      tests_status: { passed: step, failed: agent % 3, skipped: 0 },
    },
    recovery: { rollback_instructions: text() },
  };
}
