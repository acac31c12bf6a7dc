/**
 * A body that is made while it is sent. What it holds is released when it ends, in any way: read to its end, failed, or left before its first
 * byte. A generator that has not begun has no `finally` to run.
 */
export function bodyFrom<T>(pieces: AsyncGenerator<T, void>, ended: () => void): ReadableStream<T> {
  return new ReadableStream<T>(
    {
      async pull(controller) {
        try {
          const { done, value } = await pieces.next();
          if (done !== true) return controller.enqueue(value);
          ended();
          controller.close();
        } catch (error) {
          ended();
          throw error;
        }
      },
      async cancel() {
        ended();
        await pieces.return();
      },
    },
    { highWaterMark: 0 },
  );
}
