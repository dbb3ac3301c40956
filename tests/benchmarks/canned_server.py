"""A server that answers every OpenAI Responses call with one body after a fixed latency: as cheap as a server can be.

python canned_server.py LATENCY_S prints its port, then serves until its standard input ends.
"""

import asyncio
import json
import sys

from aiohttp import web

OUTPUT = {
    "score": 3,
    "reason": "Step 2 multiplies by 4 where the question gives 5, so level 3 fits and level 4 does not. " * 4,
    "suggestion": "In step 2, multiply by 5 and carry the product on. " * 4,
    "refined_answer": "1. 3 * 5 = 15\n2. 15 - 4 = 11\nFinal answer: 11\n" * 8,
}
BODY = json.dumps(
    {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "sim-bench",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": json.dumps(OUTPUT), "annotations": []}],
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 500,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 300,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 800,
        },
    }
).encode()


async def main(latency_s: float) -> None:
    async def answer(request: web.Request) -> web.Response:
        await request.read()
        if latency_s:
            await asyncio.sleep(latency_s)
        return web.Response(body=BODY, content_type="application/json", headers={"x-request-id": "bench"})

    app = web.Application()
    app.router.add_post("/v1/responses", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
