// The styles of a prompt, as data: what each says itself, and which sections in which order. What is not listed is named as left out.

import type { Checkpoint } from "../protocol/checkpoint.ts";
import type { PromptStyle } from "../protocol/prompt.ts";
import type { WorkspaceDrift, WorkspaceGrade } from "../protocol/workspace.ts";
import { isNextActionTold, type SectionName } from "./sections.ts";

export interface Style {
  /** The first heading; the task's name follows. */
  readonly title: string;
  readonly opening: string;
  /** In the order of the prompt, with their headings. Provenance stands before them, what was left out after them. */
  readonly sections: readonly (readonly [section: SectionName, heading: string])[];
  /** The last lines, after everything else: models remember them best. */
  readonly closing: string;
}

export const STYLES: Readonly<Record<PromptStyle, Style>> = {
  standard: {
    title: "Continue task",
    opening:
      "You take over a task that another agent worked on; its context is gone, this is what it recorded.",
    sections: [
      ["goal", "Goal"],
      ["next_action", "Next action"],
      ["current_step", "Current step and partial work"],
      ["workspace", "Workspace"],
      ["blockers", "Blockers and risks"],
      ["remaining", "Remaining"],
      ["accomplished", "Accomplished"],
      ["decisions", "Decisions and their reasons"],
      ["constraints", "Constraints"],
      ["assumptions", "Assumptions, not verified"],
      ["dependencies", "External dependencies"],
      ["files", "Files"],
      ["note", "Note of the last agent"],
      ["rollback", "How to roll back"],
      ["verification", "Verification"],
      ["mission", "Mission"],
      ["progress", "Progress"],
    ],
    closing:
      "Begin with the next action. Do not repeat what is accomplished, keep to the decisions unless they prove wrong, and write a checkpoint of this task before long operations and when a step is done.",
  },
  steps: {
    title: "Resume task",
    opening: "This task was partly done by another agent. Its steps, decisions and unfinished work follow.",
    sections: [
      ["goal", "Task"],
      ["accomplished", "Completed steps"],
      ["decisions", "Decisions made"],
      ["remaining", "Pending steps"],
      ["blockers", "Blockers"],
      ["current_step", "Step in progress"],
      ["next_action", "Next action"],
      ["files", "Files created or modified"],
      ["workspace", "Workspace"],
      ["constraints", "Constraints"],
      ["assumptions", "Assumptions, not verified"],
      ["verification", "Verification"],
      ["note", "Note of the last agent"],
      ["rollback", "How to roll back"],
    ],
    closing:
      "First look whether the partial work and the files are as described. Then finish the step in progress and the pending steps, and report the task as resumed, not as new.",
  },
  mission: {
    title: "Resume mission of task",
    opening:
      "You coordinate a mission whose coordinator lost its context. This is its state when it was last recorded.",
    sections: [
      ["goal", "Mission"],
      ["progress", "Progress"],
      ["mission", "Sorties, locks and messages"],
      ["next_action", "Next step"],
      ["current_step", "Last action"],
      ["remaining", "Next steps"],
      ["blockers", "Current blockers"],
      ["files", "Files modified"],
      ["accomplished", "Accomplished"],
      ["decisions", "Decisions and their reasons"],
      ["constraints", "Constraints"],
      ["workspace", "Workspace"],
      ["note", "Note of the last coordinator"],
    ],
    closing:
      "Compare this with the state as it is now: locks may have expired and messages may have been delivered since. Then take the next step.",
  },
  pointer: {
    title: "Resume task",
    opening: "You resume your own work from its last checkpoint.",
    sections: [
      ["goal", "Goal"],
      ["accomplished", "Completed"],
      ["remaining", "Pending"],
      ["blockers", "Blocked"],
      ["decisions", "Key decisions"],
      ["workspace", "Workspace"],
      ["next_action", "Next action"],
    ],
    closing: "Do exactly the next action, then go on with what is pending.",
  },
};

const GRADES: Readonly<Record<WorkspaceGrade, string>> = {
  ok: "The workspace is as the checkpoint recorded it.",
  drift:
    "The workspace has drifted from what the checkpoint recorded: look at the differences before you go on.",
  conflict:
    "The workspace conflicts with what the checkpoint recorded: recorded work may be missing or other work may be here. Settle that first, and neither reset nor overwrite anything.",
};

/** The sections of a style in their order, each with the lines of ours above its texts: first the heading. */
export function aboveOf(
  style: PromptStyle,
  checkpoint: Checkpoint,
  drift: WorkspaceDrift | undefined,
): ReadonlyMap<SectionName, readonly string[]> {
  return new Map(
    STYLES[style].sections.map(([section, heading]) => {
      const said =
        section === "workspace" ? grade(drift) : section === "next_action" ? untold(checkpoint) : [];
      return [section, [`## ${heading}`, ...said]];
    }),
  );
}

export function headingOf(section: SectionName, style: PromptStyle): string {
  const all = [...STYLES[style].sections, ...STYLES.standard.sections];
  return all.find(([name]) => name === section)![1];
}

const grade = (drift: WorkspaceDrift | undefined): string[] =>
  drift === undefined ? [] : [GRADES[drift.grade]];

function untold(checkpoint: Checkpoint): string[] {
  if (isNextActionTold(checkpoint)) return [];
  const { current_step: step, pending_items: pending, current_focus: focus } = checkpoint.execution_state;
  return step !== undefined || pending.length > 0 || focus !== undefined
    ? ["None was recorded as such. This is the nearest to one:"]
    : ["None was recorded. Find out what remains, and ask if that is not clear."];
}
