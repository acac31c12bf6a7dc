/** The payloads of the vendors' hooks, member by member as their contracts define them. */
import type { HookVendorName } from "../../../shared/sdk/hooks/vendors.ts";

export interface VendorPayloads {
  /** [event, payload] of the begin of a session, a prompt, a changed file, a passed test, a stop, a compaction. */
  readonly start: (source: string) => [string, object];
  readonly prompt: (text: string) => [string, object];
  readonly edit: (path: string) => [string, object];
  readonly test: (command: string) => [string, object];
  readonly stop: (isContinuation: boolean, message: string) => [string, object];
  readonly compact: [string, object];
}

/** `cwd`: the folder of the agent. `transcript`: the file with its usage. */
export function payloadsOf(
  vendor: HookVendorName,
  session_id: string,
  { cwd, transcript }: { readonly cwd: string; readonly transcript: string },
): VendorPayloads {
  const common = { session_id, transcript_path: transcript, cwd };
  const of = (event: string, more: object): [string, object] => [
    event,
    { ...common, hook_event_name: event, ...more },
  ];
  if (vendor === "gemini") return geminiPayloads(of);
  const codex =
    vendor === "codex" ? { model: "gpt-5-codex", permission_mode: "default", turn_id: "turn-1" } : {};
  return {
    start: (source) => of("SessionStart", { ...(vendor === "codex" && { model: "gpt-5-codex" }), source }),
    prompt: (prompt) => of("UserPromptSubmit", { ...codex, prompt }),
    edit: (path) =>
      vendor === "codex"
        ? of("PostToolUse", {
            ...codex,
            ...{ tool_name: "apply_patch", tool_use_id: "call-1", tool_response: "Success" },
            tool_input: { command: `*** Begin Patch\n*** Update File: ${path}\n@@\n+x\n*** End Patch` },
          })
        : of("PostToolUse", {
            ...{ tool_name: "Edit", tool_use_id: "toolu_1", duration_ms: 12, permission_mode: "default" },
            tool_input: { file_path: path, old_string: "a", new_string: "b" },
            tool_response: { filePath: path },
          }),
    test: (command) =>
      of("PostToolUse", {
        ...codex,
        tool_name: "Bash",
        tool_use_id: "toolu_2",
        tool_input: { command },
        tool_response:
          vendor === "codex"
            ? { exit_code: 0 }
            : { stdout: "ok", stderr: "", interrupted: false, exit_code: 0 },
      }),
    stop: (stop_hook_active, last_assistant_message) =>
      of("Stop", { ...codex, stop_hook_active, last_assistant_message }),
    compact: of("PreCompact", {
      ...codex,
      trigger: "auto",
      ...(vendor === "claude-code" && { custom_instructions: null }),
    }),
  };
}

function geminiPayloads(of: (event: string, more: object) => [string, object]): VendorPayloads {
  const timestamp = "2026-11-24T10:00:00.000Z";
  return {
    start: (source) => of("SessionStart", { timestamp, source }),
    prompt: (prompt) => of("BeforeAgent", { timestamp, prompt }),
    edit: (file_path) =>
      of("AfterTool", {
        timestamp,
        tool_name: "write_file",
        tool_input: { file_path, content: "x" },
        tool_response: { llmContent: "ok" },
      }),
    test: (command) =>
      of("AfterTool", {
        timestamp,
        tool_name: "run_shell_command",
        tool_input: { command },
        tool_response: { exitCode: 0 },
      }),
    stop: (stop_hook_active, prompt_response) =>
      of("AfterAgent", { timestamp, prompt: "", prompt_response, stop_hook_active }),
    compact: of("PreCompress", { timestamp, trigger: "auto" }),
  };
}

/** The end of a transcript, with the usage of the last answer. */
export function transcriptOf(vendor: HookVendorName): string {
  const line =
    vendor === "codex"
      ? {
          type: "event_msg",
          payload: {
            type: "token_count",
            info: {
              total_token_usage: {
                input_tokens: 90_000,
                cached_input_tokens: 60_000,
                output_tokens: 4_000,
                total_tokens: 94_000,
              },
              last_token_usage: {
                input_tokens: 40_000,
                cached_input_tokens: 30_000,
                output_tokens: 1_000,
                total_tokens: 41_000,
              },
              model_context_window: 272_000,
            },
          },
        }
      : {
          type: "assistant",
          isSidechain: false,
          message: {
            model: "claude-opus-4-6",
            usage: {
              input_tokens: 10,
              cache_read_input_tokens: 40_000,
              cache_creation_input_tokens: 490,
              output_tokens: 500,
            },
          },
        };
  return `${JSON.stringify({ type: "user", message: { role: "user" } })}\n${JSON.stringify(line)}\n`;
}
