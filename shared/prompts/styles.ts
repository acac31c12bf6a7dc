// The styles of a prompt, as data: the text of each, and its sections in their order. Other sections are listed as left out.

import type { Checkpoint } from "../protocol/checkpoint.ts";
import type { PromptStyle } from "../protocol/prompt.ts";
import type { WorkspaceDrift, WorkspaceGrade } from "../protocol/workspace.ts";
import { hasNextAction, type SectionName } from "./sections.ts";

export interface Style {
  /** Items begin with a box, which is ticked if they are completed. */
  readonly isChecklist?: true;
  /** The first heading, before the id of the task. */
  readonly title: string;
  readonly opening: string;
  /** The sections in their order, with their headings. The provenance precedes them, and the omissions follow. */
  readonly sections: readonly (readonly [section: SectionName, heading: string])[];
  /** The last lines of the prompt, which models remember best. */
  readonly closing: string;
}

/** A fetched file is verified. */
const ARTIFACTS = "Artifacts (fleet artifact get HASH --out FILE)";

export const STYLES: Readonly<Record<PromptStyle, Style>> = {
  standard: {
    title: "Continue task",
    opening: "You take over a task from another agent. Its context is lost; this is what it recorded.",
    sections: [
      ["goal", "Goal"],
      ["next_action", "Next action"],
      ["current_step", "Current step and partial work"],
      ["workspace", "Workspace"],
      ["blockers", "Blockers and risks"],
      ["remaining", "Remaining"],
      ["accomplished", "Accomplished"],
      ["side_effects", "Side effects"],
      ["decisions", "Decisions and their reasons"],
      ["constraints", "Constraints"],
      ["assumptions", "Assumptions, not verified"],
      ["dependencies", "External dependencies"],
      ["files", "Files"],
      ["artifacts", ARTIFACTS],
      ["note", "Note of the last agent"],
      ["rollback", "How to roll back"],
      ["verification", "Verification"],
      ["mission", "Mission"],
      ["progress", "Progress"],
    ],
    closing:
      "Begin with the next action. Do not repeat what is accomplished, keep to the decisions unless they prove wrong, and write a checkpoint of this task before long operations and when a step is done.",
  },
  /** The template of seed 003. */
  steps: {
    title: "Resume task",
    opening: "You are resuming a task that was partially completed by another agent.",
    isChecklist: true,
    sections: [
      ["goal", "Task"],
      ["accomplished", "Completed"],
      ["side_effects", "Side effects"],
      ["decisions", "Decisions Made"],
      ["remaining", "Pending"],
      ["blockers", "Blockers"],
      ["current_step", "Current Step (in progress)"],
      ["next_action", "Next Action"],
      ["files", "Files Created/Modified"],
      ["artifacts", ARTIFACTS],
      ["workspace", "Workspace"],
      ["constraints", "Constraints"],
      ["assumptions", "Assumptions, not verified"],
      ["verification", "Verification"],
      ["note", "Note of the last agent"],
      ["rollback", "How to roll back"],
    ],
    closing:
      "Continue where the previous agent stopped. Verify the files and the partial work, then complete the remaining steps, and report the task as resumed, not as new.",
  },
  /** The template of seed 002. */
  mission: {
    title: "Recovery Context of mission task",
    opening:
      "You are resuming a mission after its coordinator lost its context. This is its state when it was last recorded.",
    sections: [
      ["goal", "Mission"],
      ["progress", "Progress"],
      ["current_step", "Last Action"],
      ["remaining", "Next Steps"],
      ["next_action", "Next Action"],
      ["blockers", "Current Blockers"],
      ["files", "Files Modified"],
      ["artifacts", ARTIFACTS],
      ["time", "Time Context"],
      ["mission", "Sorties, locks and messages"],
      ["side_effects", "Side effects"],
      ["accomplished", "Accomplished"],
      ["decisions", "Decisions and their reasons"],
      ["constraints", "Constraints"],
      ["workspace", "Workspace"],
      ["note", "Note of the last coordinator"],
    ],
    closing:
      "Review the state as it is now, because locks may have expired and messages may have been delivered since. Then continue the mission with the next step.",
  },
  /** The template of seed 004. */
  pointer: {
    title: "Resuming from Checkpoint of task",
    opening: "You resume your own work from its last checkpoint.",
    sections: [
      ["goal", "Goal"],
      ["accomplished", "Completed"],
      ["remaining", "Pending"],
      ["blockers", "Blocked"],
      ["decisions", "Key Decisions"],
      ["side_effects", "Side effects"],
      ["artifacts", ARTIFACTS],
      ["workspace", "Workspace"],
      ["next_action", "Next Action"],
      ["phase", "Phase"],
    ],
    closing: "Do exactly the next action, then continue with the pending items.",
  },
};

const GRADES: Readonly<Record<WorkspaceGrade, string>> = {
  ok: "The workspace is as the checkpoint recorded it.",
  drift:
    "The workspace has drifted from the state in the checkpoint: look at the differences before you continue.",
  conflict:
    "The workspace conflicts with the state in the checkpoint: recorded work may be missing, or other work may be present. Resolve that first, and neither reset nor overwrite anything.",
};

/** The sections of a style in their order, each with its unquoted lines: the heading and remarks. */
export function headersOf(
  style: PromptStyle,
  checkpoint: Checkpoint,
  drift: WorkspaceDrift | undefined,
): ReadonlyMap<SectionName, readonly string[]> {
  return new Map(
    STYLES[style].sections.map(([section, heading]) => {
      const remarks =
        section === "workspace" ? grade(drift) : section === "next_action" ? noNextAction(checkpoint) : [];
      return [section, [`## ${heading}`, ...remarks]];
    }),
  );
}

export function headingOf(section: SectionName, style: PromptStyle): string {
  const all = [...STYLES[style].sections, ...STYLES.standard.sections];
  return all.find(([name]) => name === section)![1];
}

const grade = (drift: WorkspaceDrift | undefined): string[] =>
  drift === undefined ? [] : [GRADES[drift.grade]];

function noNextAction(checkpoint: Checkpoint): string[] {
  if (hasNextAction(checkpoint)) return [];
  const { current_step: step, pending_items: pending, current_focus: focus } = checkpoint.execution_state;
  return step !== undefined || pending.length > 0 || focus !== undefined
    ? ["None was recorded. This is the best substitute:"]
    : ["None was recorded. Find out what remains, and ask if it is unclear."];
}
