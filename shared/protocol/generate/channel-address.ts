// The address of a channel of the AsyncAPI document, and its parameters.

const PARAMETERS: Readonly<Record<string, string>> = {
  tenant: "The tenant; default unless there are several. 1 to 64 characters of A-Z a-z 0-9 _ -",
  agent_id:
    "The agent that sends the message; in commands also a person, as human=<name>. The server's permissions guard this token.",
  caller_id:
    "The agent or person that asks; a person as human=<name>. The server's permissions guard this token.",
  agent_type: "The agent type that the offer is for.",
  runner_id:
    "The runner that asks; in commands also an orchestrator. The server's permissions guard this token.",
  new_agent_id: "The agent that becomes the owner. The answer is FORBIDDEN for a person.",
  stream: "The stream from which the refused message came: FLEET_QUEUE.",
  reason: "The error code in lower case.",
  severity: "The urgency of the alert: warning or critical.",
  task_id: "The task that the message is about.",
  mark: "The same for all offers of a task. Only services can make it.",
};

/** Turns `fleet.x.tenant.task_id` into `fleet.x.{tenant}.{task_id}` with a description of each parameter. */
export function channelAddress(subject: string): Readonly<Record<string, unknown>> {
  const tokens = subject.split(/([.=])/);
  const parameters = tokens.filter((token) => Object.hasOwn(PARAMETERS, token));
  return {
    address: tokens.map((token) => (parameters.includes(token) ? `{${token}}` : token)).join(""),
    parameters: Object.fromEntries(parameters.map((name) => [name, { description: PARAMETERS[name] }])),
  };
}
