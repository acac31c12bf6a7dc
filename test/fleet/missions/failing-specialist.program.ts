// A specialist whose work fails, as its title says: by a bug, or by an API that answers with an error.
import { connect } from "../../../shared/sdk/sdk.ts";

const [mission = "", sortieId = "", api = ""] = process.argv.slice(2);

class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

async function work(title: string): Promise<void> {
  if (title === "bug") return (undefined as unknown as { edit(): void }).edit();
  const answer = await fetch(`${api}/${title}`);
  if (!answer.ok) throw new ApiError(answer.status, await answer.text());
}

const fleet = await connect({ role: "agent" });
const specialist = fleet.missions.specialist(mission);
await specialist.onAssignment(sortieId, {
  begin: ({ title }) => work(title),
  resume: ({ title }) => work(title),
});
