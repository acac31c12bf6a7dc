/** The payloads of the vendors' hooks as their programs wrote them. The files in recordings/ name the programs, and say how they were recorded. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { HookVendorName } from "../../../shared/sdk/hooks/vendors.ts";

type Payload = Readonly<Record<string, unknown>> & { readonly hook_event_name: string };
export type HookCall = [event: string, payload: Payload];

interface Recording {
  /** The package and the version of the program. */
  readonly program: string;
  readonly version: string;
  /** How it was recorded. */
  readonly recorded: string;
  /** The lines of the transcript that Fleet reads. */
  readonly transcript: readonly object[];
  /** Two sessions in the order of their events; the second begins with /clear. */
  readonly events: readonly Payload[];
}

/** `cwd`: the folder of the agent. `transcript`: the file with its usage. */
export interface RecordedPlaces {
  readonly cwd: string;
  readonly transcript: string;
}

export interface VendorPayloads {
  /** [event, payload] of the begin of a session, a prompt, a changed file, a passed test, a stop, a compaction. */
  readonly start: (source: string) => HookCall;
  readonly prompt: (text: string) => HookCall;
  readonly edit: (path: string) => HookCall;
  readonly test: (command: string) => HookCall;
  readonly stop: (isContinuation: boolean, message: string) => HookCall;
  readonly compact: HookCall;
}

/** The events and the tools in the vendor's words, and the member with the last words of the agent. */
const NAMES = {
  "claude-code": {
    ...{ prompt: "UserPromptSubmit", tool: "PostToolUse", stop: "Stop", compact: "PreCompact" },
    ...{ edit: "Edit", shell: "Bash", message: "last_assistant_message" },
  },
  codex: {
    ...{ prompt: "UserPromptSubmit", tool: "PostToolUse", stop: "Stop", compact: "PreCompact" },
    ...{ edit: "apply_patch", shell: "Bash", message: "last_assistant_message" },
  },
  gemini: {
    ...{ prompt: "BeforeAgent", tool: "AfterTool", stop: "AfterAgent", compact: "PreCompress" },
    ...{ edit: "write_file", shell: "run_shell_command", message: "prompt_response" },
  },
} as const;

/** The calls of the hooks in the recorded sessions. */
export function recordedCalls(vendor: HookVendorName, places: RecordedPlaces): HookCall[] {
  const { events } = readRecording(vendor, places);
  return events.map((payload) => [payload.hook_event_name, payload]);
}

export function transcriptOf(vendor: HookVendorName, places: RecordedPlaces): string {
  const { transcript } = readRecording(vendor, places);
  return transcript.map((line) => `${JSON.stringify(line)}\n`).join("");
}

/** Recorded payloads with other texts, in a session of the caller. */
export function payloadsOf(
  vendor: HookVendorName,
  session_id: string,
  places: RecordedPlaces,
): VendorPayloads {
  const names = NAMES[vendor];
  const { events } = readRecording(vendor, places);
  const of = (event: string, more: object, like: object = {}): HookCall => {
    const found = events.find(
      (one) =>
        one.hook_event_name === event &&
        Object.entries(like).every(([member, value]) => one[member] === value),
    );
    if (found === undefined) throw new Error(`not recorded: ${event}`);
    return [event, { ...found, session_id, ...more }];
  };
  const tool = (tool_name: string, input: (recorded: Record<string, string>) => object): HookCall => {
    const [, { tool_input }] = of(names.tool, {}, { tool_name });
    const recorded = tool_input as Record<string, string>;
    return of(names.tool, { tool_input: { ...recorded, ...input(recorded) } }, { tool_name });
  };
  return {
    start: (source) => of("SessionStart", { source }),
    prompt: (prompt) => of(names.prompt, { prompt }),
    edit: (path) =>
      tool(names.edit, ({ command }) =>
        vendor === "codex" ? { command: command!.replace("login.ts", path) } : { file_path: path },
      ),
    test: (command) => tool(names.shell, () => ({ command })),
    stop: (stop_hook_active, message) => of(names.stop, { stop_hook_active, [names.message]: message }),
    compact: of(names.compact, {}, { trigger: "manual" }),
  };
}

function readRecording(vendor: HookVendorName, { cwd, transcript }: RecordedPlaces): Recording {
  const text = readFileSync(join(import.meta.dirname, "recordings", `${vendor}.json`), "utf8");
  return JSON.parse(text.replaceAll("{folder}", cwd).replaceAll("{transcript}", transcript)) as Recording;
}
