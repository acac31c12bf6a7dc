// The styles of a prompt, as data: the text of each, and its sections in their order. Other sections are listed as left out.

import type { Checkpoint } from "../protocol/checkpoint.ts";
import type { PromptStyle } from "../protocol/prompt.ts";
import type { WorkspaceDrift, WorkspaceGrade } from "../protocol/workspace.ts";
import { hasNextAction, type SectionName } from "./sections.ts";

export interface Style {
  /** The first heading, before the id of the task. */
  readonly title: string;
  readonly opening: string;
  /** The sections in their order, with their headings. The provenance precedes them, and the omissions follow. */
  readonly sections: readonly (readonly [section: SectionName, heading: string])[];
  /** The last lines of the prompt, which models remember best. */
  readonly closing: string;
}

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
      "First check that the partial work and the files are as described. Then finish the step in progress and the pending steps, and report the task as resumed, not as new.",
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
