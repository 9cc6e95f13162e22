# One image for the web server, the worker and every other command.
FROM python:3.11-slim

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 ZOEA_DATA=/data
WORKDIR /app

COPY requirements.txt .
RUN pip install --no-cache-dir --disable-pip-version-check -r requirements.txt

COPY . .
RUN useradd --system --no-create-home zoea && install -d -o zoea -g zoea /data
USER zoea
VOLUME /data
EXPOSE 8000

ENTRYPOINT ["python", "manage.py"]
CMD ["help"]
