/**
 * Judges the content of a checkpoint by the guidelines of seed 004: whether another agent could continue from it. The rules look at the
 * form of English sentences, so all but one only advise. A next action that says nothing is refused.
 */
import { TOO_LATE_MS, TOO_SOON_MS } from "../../protocol/checkpoint-moments.ts";

export type LintRule =
  | "next_action_vague"
  | "next_action_without_place"
  | "goal_not_one_sentence"
  | "goal_differs"
  | "completed_empty"
  | "completed_not_past_tense"
  | "completed_vague"
  | "pending_not_an_action"
  | "decision_without_reason"
  | "phase_unknown"
  | "too_soon"
  | "too_late";

export interface LintFinding {
  readonly rule: LintRule;
  /** `error`: the checkpoint is refused. `advice`: it is written. */
  readonly severity: "error" | "advice";
  /** The path of the field in the checkpoint. */
  readonly path: string;
  readonly text: string;
  /** A good value. */
  readonly example: string;
}

/** The parts of a checkpoint that the rules look at. */
export interface LintedCheckpoint {
  readonly goal?: string | undefined;
  readonly completed: readonly string[];
  readonly pending: readonly string[];
  readonly decisions: readonly { readonly decision: string; readonly rationale?: string | undefined }[];
  readonly nextAction?: string | undefined;
  readonly currentContext?: string | undefined;
  readonly phase?: string | undefined;
}

export interface LintContext {
  /** The checkpoint of the task before this one, and the time since it. */
  readonly previous?: {
    readonly goal?: string | undefined;
    readonly completed: number;
    readonly agoMs: number;
  };
  /** The phases of the agent's protocol. Without them any phase is known. */
  readonly phases?: readonly string[];
}

const EXAMPLE_ACTION = "Analyze source 3 (https://example.com) for authentication patterns";
const EXAMPLE_COMPLETED = "Analyzed 2 of 5 sources";

/** `what` is all that the words say: continue, the work, the next step. */
const VAGUE_ACTION =
  /^(?:please )?(?:(?:continue|keep|carry|go|move|proceed|resume|finish|complete|do|start|work)(?: (?:on|going|working|work|with|it|this|that|the|your|my|rest|task|job|remaining|next|step|steps|item|items|where|i|you|we|left|off))*|(?:the )?next (?:step|item|task)|to ?do|tbd|n\/?a|none|nothing|same(?: as before)?|see above)[.!]*$/i;
/** Something that names a place: a path, a file, a URL, code, a quotation or a number. */
const PLACE = /[\w-]\/[\w-]|\.[a-z]{1,5}\b|https?:|`[^`]+`|"[^"]+"|'[^']+'|\b\w+\(\)|[A-Z]\w*[A-Z]\w*|\d/;
const SENTENCES = /[.!?]\s+\p{Lu}/u;
const REASON = /\b(?:because|since|so that|so as|as it|to avoid|in order|due to|for)\b|\(.+\)|:/i;
const VAGUE_DONE =
  /^(?:did|done|finished|completed|made|worked(?: on)?)(?: (?:it|this|that|stuff|some|things|work|progress|the task|a lot))*[.!]*$/i;
const PAST =
  /^(?:not |partly |also |successfully |manually )?(?:\w+ed|\w+(?:wrote|built|found|made|ran)|began|bought|broke|brought|built|chose|cut|did|drew|fixed|found|gave|got|hid|kept|led|left|let|made|met|put|ran|read|rewrote|rebuilt|sent|set|shut|split|spent|swept|taught|took|tore|tracked|understood|undid|went|won|wrote)\b/i;

/** The findings, errors first. */
export function lintCheckpoint(checkpoint: LintedCheckpoint, context: LintContext = {}): LintFinding[] {
  const findings = [
    ...nextAction(checkpoint),
    ...goal(checkpoint, context),
    ...completed(checkpoint),
    ...pending(checkpoint),
    ...decisions(checkpoint),
    ...phase(checkpoint, context),
    ...frequency(checkpoint, context),
  ];
  return findings.toSorted((a, b) => Number(b.severity === "error") - Number(a.severity === "error"));
}

/** True if an agent without further context could not act on the text. */
export const isVagueAction = (text: string): boolean => VAGUE_ACTION.test(text.trim());

export function vagueAction(path: string): LintFinding {
  return {
    rule: "next_action_vague",
    severity: "error",
    path,
    text: "the next action says nothing to an agent that does not know your context",
    example: EXAMPLE_ACTION,
  };
}

function nextAction({ nextAction: action, currentContext: place }: LintedCheckpoint): LintFinding[] {
  const path = "resume_pointer.next_action";
  if (action === undefined) return [];
  if (isVagueAction(action)) return [vagueAction(path)];
  if (place !== undefined || PLACE.test(action)) return [];
  const text = "the next action names no file, URL or command; name it, or give the current context";
  return [advice("next_action_without_place", path, text, "Read src/db/mongo.ts for patterns")];
}

function goal({ goal: text }: LintedCheckpoint, { previous }: LintContext): LintFinding[] {
  if (text === undefined) return [];
  const [path, example] = ["goal", "Research MongoDB agent coordination patterns"];
  return [
    ...(SENTENCES.test(text) || text.includes("\n")
      ? [
          advice(
            "goal_not_one_sentence",
            path,
            "the goal is one sentence about the overall objective",
            example,
          ),
        ]
      : []),
    ...(previous?.goal !== undefined && previous.goal !== text
      ? [
          advice(
            "goal_differs",
            path,
            "the goal differs from that of the checkpoint before; it should match the assignment",
            previous.goal,
          ),
        ]
      : []),
  ];
}

function completed({ completed: items }: LintedCheckpoint): LintFinding[] {
  const path = "completed_items";
  if (items.length === 0) {
    const text = "nothing is completed: name what is done, so that it is not repeated";
    return [advice("completed_empty", path, text, EXAMPLE_COMPLETED)];
  }
  return items.flatMap((item, at) => {
    const here = `${path}.${at}`;
    if (VAGUE_DONE.test(item.trim())) {
      const text = "the item is not specific enough to prevent that the work is repeated";
      return [advice("completed_vague", here, text, EXAMPLE_COMPLETED)];
    }
    if (PAST.test(item.trim())) return [];
    return [
      advice("completed_not_past_tense", here, "a completed item is in the past tense", EXAMPLE_COMPLETED),
    ];
  });
}

function pending({ pending: items }: LintedCheckpoint): LintFinding[] {
  return items.flatMap((item, at) =>
    PAST.test(item.trim()) && !/^(?:read|set|put|cut|let|split|shut)\b/i.test(item)
      ? [
          advice(
            "pending_not_an_action",
            `pending_items.${at}`,
            "a pending item is an action that remains",
            "Synthesize the findings",
          ),
        ]
      : [],
  );
}

function decisions({ decisions: all }: LintedCheckpoint): LintFinding[] {
  return all.flatMap(({ decision, rationale }, at) =>
    rationale !== undefined || REASON.test(decision)
      ? []
      : [
          advice(
            "decision_without_reason",
            `key_decisions.${at}`,
            "the decision has no reason",
            "Using Atlas Vector Search (better for semantic queries)",
          ),
        ],
  );
}

function phase({ phase: name }: LintedCheckpoint, { phases }: LintContext): LintFinding[] {
  if (name === undefined || phases === undefined || phases.includes(name)) return [];
  const text = `the phase is none of the agent's protocol: ${phases.join(", ")}`;
  return [advice("phase_unknown", "resume_pointer.phase", text, phases[0] ?? "")];
}

function frequency({ completed: items }: LintedCheckpoint, { previous }: LintContext): LintFinding[] {
  if (previous === undefined) return [];
  const example = "one after each finished item, and one after 10 minutes";
  if (previous.agoMs < TOO_SOON_MS && items.length <= previous.completed) {
    const text = "the checkpoint before is less than a minute old, and nothing was completed since";
    return [advice("too_soon", "metadata", text, example)];
  }
  if (previous.agoMs > TOO_LATE_MS) {
    const text = "the checkpoint before is more than half an hour old: so much work could have been lost";
    return [advice("too_late", "metadata", text, example)];
  }
  return [];
}

function advice(rule: LintRule, path: string, text: string, example: string): LintFinding {
  return { rule, severity: "advice", path, text, example };
}
