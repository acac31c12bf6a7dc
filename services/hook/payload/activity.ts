/** What an event says about the work: files, commands, tests, prompts and tokens. Its texts have no secrets that are recognised, and fit the limits. */
import { isAbsolute, relative } from "node:path";
import { redactedText } from "../../../shared/integrity/redaction/content.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Activity } from "../../../shared/protocol/turns.ts";
import { type HookEvent, isObject, stringOf } from "../event.ts";
import { hasFailed, hasPassed } from "./tool-outcome.ts";
import { readUsage } from "./transcript.ts";

/** The members in which the tools of all vendors name a file that they change. */
const FILE_MEMBERS = ["file_path", "notebook_path", "path", "absolute_path"];
const CHANGING = /^(write|edit|multiedit|notebookedit|apply_patch|write_file|replace|create_file)$/i;
const SHELL = /^(bash|shell|local_shell|exec_command|run_shell_command|unified_exec)$/i;
const TESTS =
  /\b(npm (run )?test|npx (vitest|jest)|yarn test|pnpm test|pytest|go test|cargo test|mvn .*test|gradle .*test|make (check|test)|vitest|jest|rspec|phpunit|ctest)\b/;
const PATCHED = /^\*\*\* (?:Add|Update|Delete) File: (.+)$/gm;

/** Removes the secrets that the client of the agent knows, such as the lines of FLEET_SECRETS_FILE, as it does in commands. */
export type WithoutSecrets = <T>(content: T) => Promise<T>;

export async function activityOf(event: HookEvent, clean: Clean): Promise<Activity | undefined> {
  switch (event.event) {
    case "user_prompt_submit":
      return {
        prompt: await clean.text(
          "prompt",
          stringOf(event.payload.prompt) ?? "",
          LIMITS.session_prompt_chars_max,
        ),
      };
    case "after_model":
      return toolActivity(event, clean);
    case "agent_stop":
    case "pre_compact":
    case "agent_error":
    case "session_end":
      return endActivity(event, clean);
    default:
      return undefined;
  }
}

async function toolActivity(event: HookEvent, clean: Clean): Promise<Activity> {
  const { payload, folder } = event;
  const tool = stringOf(payload.tool_name) ?? "";
  const input = isObject(payload.tool_input) ? payload.tool_input : {};
  if (SHELL.test(tool)) return shellActivity(input, event, clean);
  const isChange = CHANGING.test(tool) && !hasFailed(payload);
  const files = isChange ? await clean.paths(changedFiles(input, folder)) : [];
  return { tool_calls: 1, ...(files.length > 0 && { files }) };
}

async function shellActivity(
  { command: given }: Readonly<Record<string, unknown>>,
  event: HookEvent,
  clean: Clean,
): Promise<Activity> {
  const raw = Array.isArray(given) ? given.map(String).join(" ") : (stringOf(given) ?? "");
  const patched = raw.includes("apply_patch")
    ? await clean.paths(changedFiles({ input: raw }, event.folder))
    : [];
  if (raw === "") return { tool_calls: 1 };
  const command = await clean.text("command", raw.replaceAll(/\s+/g, " "), LIMITS.session_text_chars_max);
  const passed = await hasPassed(event);
  const isTest = TESTS.test(raw);
  const one = { command, ...(passed !== undefined && { passed }), ...(isTest && { is_test: true }) };
  return { tool_calls: 1, commands: [one], ...(patched.length > 0 && { files: patched }) };
}

function changedFiles(input: Readonly<Record<string, unknown>>, folder: string): string[] {
  const named = FILE_MEMBERS.flatMap((member) => stringOf(input[member]) ?? []);
  const patches = Object.values(input).flatMap((value) =>
    typeof value === "string" ? [...value.matchAll(PATCHED)].map(([, path = ""]) => path.trim()) : [],
  );
  return [...new Set([...named, ...patches])]
    .map((path) => (isAbsolute(path) ? relative(folder, path) || path : path))
    .filter((path) => path !== "" && path.length <= LIMITS.session_text_chars_max)
    .slice(0, LIMITS.session_files_count_max);
}

/** undefined: the event has none. */
export const lastMessageOf = ({ payload }: Pick<HookEvent, "payload">): string | undefined =>
  stringOf(payload.last_assistant_message) ?? stringOf(payload.prompt_response);

async function endActivity({ payload }: HookEvent, clean: Clean): Promise<Activity> {
  const message = lastMessageOf({ payload });
  const usage = await readUsage(stringOf(payload.transcript_path));
  const model = stringOf(payload.model);
  return {
    ...(model !== undefined && { model: model.slice(0, 200).toWellFormed() }),
    ...usage,
    ...(message !== undefined && {
      message: await clean.text("message", message, LIMITS.session_prompt_chars_max),
    }),
  };
}

export interface Clean {
  /** `name`: how the report of redaction names the text. */
  text(name: string, text: string, chars: number): Promise<string>;
  paths(paths: string[]): Promise<string[]>;
}

/** Removes nothing. Only to compare: what it returns must not be kept. */
export const AS_GIVEN: Clean = {
  text: async (_name, text, chars) => text.slice(0, chars),
  paths: async (paths) => paths,
};

export const cleanerOf = (withoutSecrets: WithoutSecrets): Clean => ({
  text: (name, text, chars) => cleanText(withoutSecrets, name, text, chars),
  // What stands for a secret may be longer than the secret.
  paths: async (paths) => {
    const { files } = await withoutSecrets({ files: paths });
    return files.filter(({ length }) => length <= LIMITS.session_text_chars_max);
  },
});

/** Cut after the secrets are removed, so that no half of one stays. */
export async function cleanText(
  withoutSecrets: WithoutSecrets,
  name: string,
  text: string,
  chars: number,
): Promise<string> {
  const { [name]: known = "" } = await withoutSecrets({ [name]: text.slice(0, 20 * chars) });
  const safe = await redactedText(known);
  return safe.slice(0, chars).toWellFormed();
}
